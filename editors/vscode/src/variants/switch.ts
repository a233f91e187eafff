/** Switching the variant: a quick pick, grouped by base; one switch after the other, in the order they were asked for. */
import { QuickPickItemKind, window, type QuickPickItem, type Uri } from "vscode";
import { plain } from "../markdown";
import type { VariantRow } from "../protocol";
import type { Session } from "../session";
import { exactName, grouped, madeOf, standing } from "./rows";

interface Choice extends QuickPickItem {
  row?: VariantRow;
}

export class Switcher {
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly session: Session) {}

  list(uri: Uri | undefined): Promise<VariantRow[]> {
    return this.session.execute<VariantRow[]>("warmline.listVariants", about(uri));
  }

  /**
   * Selects a variant for the workspace of a document.
   *
   * @throws ResponseError when it cannot be selected, with why.
   */
  select(name: string, uri: Uri | undefined): Promise<void> {
    const select = this.last.then(async () => {
      await this.session.execute("warmline.selectVariant", { ...about(uri), variant: name });
    });
    this.last = select.catch(() => undefined);
    return select;
  }

  /** Lets the person choose. */
  async choose(uri: Uri | undefined): Promise<void> {
    const rows = await this.list(uri);
    if (rows.length === 0) {
      void window.showInformationMessage("Warmline: there is no variant yet. `warmline variant add` makes one.");
      return;
    }
    const chosen = await window.showQuickPick(choices(rows), {
      title: "Warmline: which variant shall answer here?",
      matchOnDescription: true,
      matchOnDetail: true,
    });
    if (chosen?.row) {
      await this.select(exactName(chosen.row, rows), uri);
    }
  }
}

/** Lays the rows out; a broken one is shown with what is wrong with it, and refused by the server when it is chosen. */
function choices(rows: readonly VariantRow[]): Choice[] {
  return grouped(rows).flatMap(({ base, rows: members }) => [
    { label: base ? plain(base) : "cannot be used", kind: QuickPickItemKind.Separator },
    ...members.map((row) => ({
      label: `${row.selected ? "$(check)" : row.error ? "$(error)" : "$(blank)"} ${plain(row.name).replace(/\$\(/g, "$ (")}`,
      description: standing(row),
      detail: `$(blank) ${madeOf(row).replace(/\$\(/g, "$ (")}`,
      row,
    })),
  ]);
}

function about(uri: Uri | undefined): { uri?: string } {
  return uri ? { uri: uri.toString() } : {};
}
