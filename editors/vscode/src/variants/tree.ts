/** The view "Variants": bases, the variants of each, and the adapters of those, with trust and validity. */
import {
  EventEmitter,
  MarkdownString,
  ThemeColor,
  ThemeIcon,
  TreeItem,
  TreeItemCollapsibleState,
  Uri,
  type Disposable,
  type TreeDataProvider,
} from "vscode";
import { escape, plain } from "../markdown";
import { hasCertificate, type VariantRow } from "../protocol";
import { exactName, grouped, madeOf, NOT_APPROVED, standing, type Group } from "./rows";

export type Node =
  | { kind: "base"; group: Group }
  | { kind: "variant"; row: VariantRow; name: string }
  | { kind: "adapter"; adapter: VariantRow["adapters"][number] };

export class VariantsTree implements TreeDataProvider<Node>, Disposable {
  private readonly changes = new EventEmitter<void>();
  readonly onDidChangeTreeData = this.changes.event;
  private rows: readonly VariantRow[] = [];

  /** @param list Lists the variants; throws while there is no server. */
  constructor(private readonly list: () => Promise<VariantRow[]>) {}

  refresh(): void {
    this.changes.fire();
  }

  async getChildren(node?: Node): Promise<Node[]> {
    if (node === undefined) {
      this.rows = await this.list().catch(() => []);
      return grouped(this.rows).map((group) => ({ kind: "base", group }));
    }
    if (node.kind === "base") {
      return node.group.rows.map((row) => ({ kind: "variant", row, name: exactName(row, this.rows) }));
    }
    return node.kind === "variant" ? node.row.adapters.map((adapter) => ({ kind: "adapter", adapter })) : [];
  }

  getTreeItem(node: Node): TreeItem {
    switch (node.kind) {
      case "base":
        return baseItem(node.group);
      case "variant":
        return variantItem(node.row);
      case "adapter":
        return adapterItem(node.adapter);
    }
  }

  dispose(): void {
    this.changes.dispose();
  }
}

function baseItem(group: Group): TreeItem {
  const item = new TreeItem(group.base ? plain(group.base) : "Cannot be used", TreeItemCollapsibleState.Expanded);
  item.iconPath = new ThemeIcon(group.base ? "database" : "warning");
  item.contextValue = "base";
  return item;
}

function variantItem(row: VariantRow): TreeItem {
  const open = row.adapters.length > 0 ? TreeItemCollapsibleState.Collapsed : TreeItemCollapsibleState.None;
  const item = new TreeItem(plain(row.name), open);
  item.description = standing(row);
  item.iconPath = variantIcon(row);
  const about = row.description ? `\n\n${escape(row.description)}` : "";
  const certificate = hasCertificate(row.certificate) ? `\n\nCertificate: ${escape(row.certificate)}` : "";
  const made = `**${escape(row.name)}**\n\n${escape(madeOf(row))}`;
  item.tooltip = new MarkdownString(`${made}${about}${certificate}\n\n${escape(row.file)}`);
  item.contextValue = `variant${row.error ? ".broken" : ""}${isNotApproved(row) ? ".unapproved" : ""}`;
  item.command = { command: "vscode.open", title: "Open", arguments: [Uri.file(row.file)] };
  item.accessibilityInformation = { label: `${row.selected ? "selected, " : ""}${plain(row.name)}, ${standing(row)}` };
  return item;
}

function variantIcon(row: VariantRow): ThemeIcon {
  if (row.error) {
    return new ThemeIcon("error", new ThemeColor("list.errorForeground"));
  }
  if (isNotApproved(row)) {
    return new ThemeIcon("shield", new ThemeColor("list.warningForeground"));
  }
  return new ThemeIcon(row.selected ? "pass-filled" : "circle-outline");
}

function adapterItem(adapter: VariantRow["adapters"][number]): TreeItem {
  const item = new TreeItem(plain(adapter.name));
  const own = adapter.written === null ? "" : ` (its own: ${adapter.written})`;
  item.description = plain(`@${adapter.scale}${own} · ${adapter.trust}`);
  item.iconPath = new ThemeIcon("layers");
  item.contextValue = "adapter";
  return item;
}

function isNotApproved(row: VariantRow): boolean {
  return row.trust === NOT_APPROVED;
}
