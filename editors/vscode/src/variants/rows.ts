/** Variants as people choose between them: grouped by base, each with what it is made of and who vouches for it. Pure. */
import { plain } from "../markdown";
import { hasCertificate, type VariantRow } from "../protocol";

/** What `listVariants` says of a workspace's file that the person has not approved. */
export const NOT_APPROVED = "not approved";

export interface Group {
  /** Name of the base; empty for variants that cannot be used as they are written. */
  base: string;
  rows: VariantRow[];
}

/** Groups variants by base, in order of name; those that are broken come last. */
export function grouped(rows: readonly VariantRow[]): Group[] {
  const groups = new Map<string, VariantRow[]>();
  for (const row of [...rows].sort((a, b) => a.name.localeCompare(b.name))) {
    const base = row.error ? "" : (row.base ?? "");
    groups.set(base, [...(groups.get(base) ?? []), row]);
  }
  const bases = [...groups.keys()].sort((a, b) => Number(a === "") - Number(b === "") || a.localeCompare(b));
  return bases.map((base) => ({ base, rows: groups.get(base) ?? [] }));
}

/** Gives the name by which a variant is selected: both backends may have one of the same name. */
export function exactName(row: VariantRow, rows: readonly VariantRow[]): string {
  const twice = rows.some((other) => other !== row && other.name === row.name && other.backend !== row.backend);
  return twice ? `${row.backend}/${row.name}` : row.name;
}

/** Writes `base -> adapter@scale`, or what is wrong. */
export function madeOf(row: VariantRow): string {
  if (row.error) {
    return plain(`${row.error.code}: ${row.error.message}`);
  }
  const parts = row.adapters.map((adapter) => `${adapter.name}@${adapter.scale}`).join(" + ");
  const base = row.merged_from ? `${row.base} (${row.merged_from})` : (row.base ?? "");
  return plain(parts ? `${base} -> ${parts}` : base);
}

/** Writes who vouches for it, how its certificate stands, and where it comes from. */
export function standing(row: VariantRow): string {
  const certificate = hasCertificate(row.certificate) ? row.certificate.split(":", 1)[0] : "";
  const from = row.from === "workspace" ? "workspace" : "yours";
  const facts = [row.error ? "broken" : row.trust, certificate, from, row.backend];
  return facts.filter(Boolean).map((fact) => plain(String(fact))).join(" · ");
}
