// Two texts beside or below each other, with what differs.
import { useMemo, useState } from "preact/hooks";
import { narrow } from "../prefs";
import { Empty, count } from "../ui/parts";
import { c } from "./code_texts";
import { diff_of, folded, is_equal, unified, type DiffRow } from "./text_diff";

const kRowsMost = 3000;

export function Diff({ before, after, left, right, same }: { before: string; after: string; left: string; right: string; same: string }) {
  const [below, set_below] = useState(false);
  const [open, set_open] = useState<Set<number>>(new Set());
  const rows = useMemo(() => diff_of(before, after), [before, after]);
  const one_column = below || narrow.value;
  const parts = useMemo(() => {
    const wide = one_column ? unified(rows) : rows;
    return folded(wide).flatMap((part) => ("hidden" in part && open.has(part.from) ? wide.slice(part.from, part.from + part.hidden) : [part]));
  }, [rows, one_column, open]);
  if (is_equal(rows)) return <Empty icon="check" title={c("equal")}>{same}</Empty>;
  return (
    <>
      <div class="diff-tools">
        <span class="soft">{left} → {right}</span>
        {!narrow.value && (
          <div class="segments end" role="group" aria-label={c("differences")}>
            <button type="button" aria-pressed={!below} onClick={() => { set_below(false); set_open(new Set()); }}>{c("beside")}</button>
            <button type="button" aria-pressed={below} onClick={() => { set_below(true); set_open(new Set()); }}>{c("unified")}</button>
          </div>
        )}
      </div>
      <div class="diff" role="region" tabIndex={0} aria-label={c("differences")}>
        <table>
          <colgroup>{one_column ? <><col class="at" /><col class="at" /><col class="sign" /><col /></> : <><col class="at" /><col class="sign" /><col /><col class="at" /><col class="sign" /><col /></>}</colgroup>
          <tbody>
            {parts.slice(0, kRowsMost).map((part, i) => ("hidden" in part ? (
              <tr key={i} class="hidden"><td colSpan={6}><button type="button" onClick={() => set_open((now) => new Set([...now, part.from]))}>⋯ {c("hidden", { n: part.hidden })}</button></td></tr>
            ) : one_column ? <Below key={i} row={part} /> : <Beside key={i} row={part} />))}
          </tbody>
        </table>
      </div>
      {parts.length > kRowsMost && <p class="quiet-line">{c("cut", { n: count(kRowsMost) })}</p>}
    </>
  );
}

function Beside({ row: { kind, left, right } }: { row: DiffRow }) {
  const differs = kind !== "same";
  const gone = differs && left ? " gone" : "";
  const come = differs && right ? " come" : "";
  return (
    <tr>
      <td class={"at" + gone}>{left?.line}</td><td class={"sign" + gone}>{gone && "−"}</td><td class={gone}>{left?.text}</td>
      <td class={"at" + come}>{right?.line}</td><td class={"sign" + come}>{come && "+"}</td><td class={come}>{right?.text}</td>
    </tr>
  );
}

function Below({ row: { kind, left, right } }: { row: DiffRow }) {
  const look = kind === "same" ? "" : left ? " gone" : " come";
  return <tr><td class={"at" + look}>{left?.line}</td><td class={"at" + look}>{right?.line}</td><td class={"sign" + look}>{kind === "same" ? "" : left ? "−" : "+"}</td><td class={look}>{(left ?? right)!.text}</td></tr>;
}
