// The experiment that another one is compared with: by default its parent, or the last one of the same name.
import { use_answer } from "../live/poll";
import { query, set_query } from "../router";
import { Select } from "../ui/parts";
import { c } from "./code_texts";
import type { Configured } from "./configured";

type Known = Pick<Configured, "id" | "name" | "parent" | "files_sha256">;
const kShown = 200;

// Candidates, the most likely first: the parent, earlier runs of the same name, later ones, others.
export function candidates(of: Known, all: Known[]): Known[] {
  const rank = (one: Known) => (one.id === of.parent ? 0 : one.name !== of.name ? 3 : one.id < of.id ? 1 : 2);
  return all.filter((one) => one.id !== of.id).sort((a, b) => rank(a) - rank(b) || b.id - a.id);
}

// `other`: null while the list loads or where there is none. `chooser`: a control that changes it, kept in the address.
export function use_other(of: Configured, optional: boolean): { other: number | null; loaded: boolean; chooser: preact.ComponentChildren } {
  const { answer } = use_answer<{ rows: Known[] }>("/api/v1/determined/experiments?fields=id,name,parent,files_sha256&page_size=2000", 60_000);
  const known = answer ? candidates(of, answer.rows) : [];
  const asked = query("with");
  const likely = known[0] && (known[0].id === of.parent || known[0].name === of.name) ? known[0] : undefined;
  const first = optional ? likely && likely.id === of.parent ? likely : undefined : known[0];
  const other = asked === "0" ? null : (known.find((one) => String(one.id) === asked) ?? first)?.id ?? null;
  const options = known.slice(0, kShown).map((one): [string, string] => [String(one.id), c(one.id === of.parent ? "parent" : "one", { id: one.id, name: one.name })]);
  const chooser = known.length > 0 && <Select label={c("with")} value={String(other ?? 0)} options={optional ? [["0", c("none")], ...options] : options} on_change={(id) => set_query({ with: id })} />;
  return { other, loaded: answer !== null, chooser };
}
