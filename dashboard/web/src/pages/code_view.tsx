// The code folder of an experiment: its files, their text, and what differs from the code of another experiment.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../api";
import { query, set_query } from "../router";
import { Card, Code, Copy, Empty, Failed, Toggle, count, failure, share, size } from "../ui/parts";
import { ArchiveError, from_base64, text_in, unpack_code, type CodeEntry } from "./code_archive";
import { c } from "./code_texts";
import type { Configured } from "./configured";
import "./configured.css";
import { Diff } from "./diff_view";
import { use_other } from "./other_experiment";

const kArchiveMost = 64 << 20;
const kContentMost = 128 << 20;
const kTextMost = 1 << 20;  // What is shown of one file.
const kLinesMost = 20_000;

type Loaded = { entries: CodeEntry[] } | { failed: "none" | "large" | "corrupt" } | { error: unknown } | { share: number };

// Archives by experiment, the newest last; a code folder never changes.
const kept = new Map<number, CodeEntry[]>();

async function load(id: number, on_part: (share: number) => void): Promise<CodeEntry[]> {
  const found = kept.get(id);
  if (found) return found;
  const parts: Uint8Array[] = [];
  for (let [offset, whole] = [0, 1]; offset < whole;) {
    const { data, size_bytes } = await call<{ data: string; size_bytes: number }>("GET", `/api/v1/determined/experiments/${id}/code?offset=${offset}`);
    if (size_bytes > kArchiveMost) throw new ArchiveError("large");
    parts.push(from_base64(data));
    offset += parts[parts.length - 1].length;
    whole = size_bytes;
    on_part(offset / whole);
  }
  const archive = new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
  const entries = unpack_code(archive, kContentMost);
  kept.set(id, entries);
  if (kept.size > 4) kept.delete(kept.keys().next().value!);
  return entries;
}

function use_code(id: number | null, has: boolean): Loaded | null {
  const [state, set_state] = useState<{ id: number | null; loaded: Loaded } | null>(null);
  useEffect(() => {
    if (id === null || !has) return undefined;
    let gone = false;
    const set = (loaded: Loaded) => { if (!gone) set_state({ id, loaded }); };
    load(id, (part) => set({ share: part })).then((entries) => set({ entries }), (error: unknown) => set(error instanceof ArchiveError ? { failed: error.why } : { error }));
    return () => { gone = true; };
  }, [id, has]);
  if (id === null) return null;
  if (!has) return { failed: "none" };
  return state?.id === id ? state.loaded : { share: 0 };
}

type Mark = "added" | "removed" | "changed" | "";
interface File { path: string; own?: CodeEntry; other?: CodeEntry; mark: Mark }

const equal = (a: Uint8Array, b: Uint8Array) => a.length === b.length && a.every((byte, i) => byte === b[i]);
export function files_of(own: CodeEntry[], other: CodeEntry[] | null): File[] {
  const others = new Map((other ?? []).filter((one) => !one.folder).map((one) => [one.path, one]));
  const files: File[] = own.filter((one) => !one.folder).map((one) => {
    const twin = others.get(one.path);
    others.delete(one.path);
    return { path: one.path, own: one, other: twin, mark: !other ? "" : !twin ? "added" : equal(one.data, twin.data) ? "" : "changed" };
  });
  return [...files, ...[...others.values()].map((one): File => ({ path: one.path, other: one, mark: "removed" }))].sort((a, b) => (a.path < b.path ? -1 : 1));
}

export function CodeView({ of }: { of: Configured }) {
  const { other, loaded, chooser } = use_other(of, true);
  const has = of.files_sha256 !== "";
  const own = use_code(of.id, has);
  const beside = use_code(other, true);
  const other_entries = beside && "entries" in beside ? beside.entries : beside && "error" in beside && other !== null ? [] : null;
  if (!has) return <Empty icon="logs" title={c("no_code", { id: of.id })}>{c("no_code.next")}</Empty>;
  if (!own || "share" in own || !loaded) return <p class="quiet-line" role="status">{c("loading", { share: share(own && "share" in own ? own.share : 1) })}</p>;
  if ("error" in own) return <Failed {...failure(own.error)} />;
  if ("failed" in own) return <Failed what={own.failed === "large" ? c("large", { size: size(kArchiveMost) }) : c("corrupt")} next={`volador experiment download-model-def ${of.id}`} />;
  return <Files of={of} other={other} own={own.entries} others={other === null ? null : other_entries} chooser={chooser} />;
}

function Files({ of, other, own, others, chooser }: { of: Configured; other: number | null; own: CodeEntry[]; others: CodeEntry[] | null; chooser: preact.ComponentChildren }) {
  const [only, set_only] = useState(false);
  const files = useMemo(() => files_of(own, others), [own, others]);
  const number = (mark: Mark) => files.filter((one) => one.mark === mark).length;
  const shown = only ? files.filter((one) => one.mark) : files;
  const asked = query("file");
  const file = shown.find((one) => one.path === asked) ?? shown.find((one) => one.mark === "changed") ?? shown.find((one) => /\.(?:py|ya?ml|sh|md)$/.test(one.path)) ?? shown[0];
  return (
    <>
      <div class="diff-tools">
        {chooser}
        {others && <><span class="soft">{c("sum", { changed: number("changed"), added: number("added"), removed: number("removed") })}</span><Toggle label={c("only_changed")} on={only} on_change={set_only} /></>}
      </div>
      <div class="code-columns">
        <section class="card code-tree" aria-label={c("files")}><Tree files={shown} at={file?.path ?? ""} /></section>
        <div class="stack">
          {file ? <OneFile key={file.path + (other ?? "")} file={file} left={c("of", { id: other ?? 0 })} right={c("of", { id: of.id })} /> : <Empty icon="logs" title={others ? c("equal") : c("pick")} />}
          <details class="code-limit"><summary>{c("in_terminal")}</summary><Code text={`volador experiment download-model-def ${of.id}`} /></details>
        </div>
      </div>
    </>
  );
}

interface Row { path: string; name: string; depth: number; file?: File; closed?: boolean }
const kSigns: Record<Mark, string> = { added: "+", removed: "−", changed: "•", "": "" };

function Tree({ files, at }: { files: File[]; at: string }) {
  const [closed, set_closed] = useState<Set<string>>(new Set());
  const rows: Row[] = [];
  const seen = new Set<string>();
  for (const file of files) {
    const parts = file.path.split("/");
    const folders = parts.slice(0, -1).map((_, i) => parts.slice(0, i + 1).join("/"));
    folders.forEach((path, depth) => {
      if (!seen.has(path) && !folders.slice(0, depth).some((one) => closed.has(one))) rows.push({ path, name: parts[depth], depth, closed: closed.has(path) });
      seen.add(path);
    });
    if (!folders.some((one) => closed.has(one))) rows.push({ path: file.path, name: parts[parts.length - 1], depth: folders.length, file });
  }
  const turn = (path: string) => set_closed((now) => {
    const next = new Set(now);
    if (!next.delete(path)) next.add(path);
    return next;
  });
  const on_key = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button")];
    all[all.indexOf(document.activeElement as HTMLElement) + step]?.focus();
    event.preventDefault();
  };
  return (
    <ul role="tree" aria-label={c("files")} onKeyDown={on_key}>
      {rows.map((row) => (
        <li key={row.path} role="none">
          <button type="button" role="treeitem" aria-selected={row.path === at} aria-level={row.depth + 1} aria-expanded={row.file ? undefined : !row.closed} style={{ paddingLeft: 8 + row.depth * 14 + "px" }} title={row.path}
            onClick={() => (row.file ? set_query({ file: row.path }) : turn(row.path))}>
            <i aria-hidden="true">{row.file ? "" : row.closed ? "▸" : "▾"}</i>
            <span class="name">{row.name}</span>
            {row.file?.own && <small>{size(row.file.own.data.length)}</small>}
            {row.file?.mark && <span class={`mark mark-${row.file.mark}`} title={c(row.file.mark)}>{kSigns[row.file.mark]}<span class="visually-hidden"> {c(row.file.mark)}</span></span>}
          </button>
        </li>
      ))}
    </ul>
  );
}

function OneFile({ file, left, right }: { file: File; left: string; right: string }) {
  const texts = [file.other, file.own].map((one) => (one ? text_in(one.data.subarray(0, kTextMost)) ?? (one.data.length > kTextMost ? text_in(one.data.subarray(0, kTextMost - 4)) : null) : ""));
  const entry = file.own ?? file.other!;
  const [before, after] = texts;
  const shown = file.own ? after : before;
  const lines = (shown ?? "").split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return (
    <Card title={<code>{file.path}</code>} action={shown ? <Copy text={shown} /> : undefined}>
      {before === null || after === null ? <Empty icon="info" title={c("not_text", { path: file.path, size: size(entry.data.length) })} />
        : file.mark === "changed" ? <Diff before={before} after={after} left={left} right={right} same="" />
          : entry.data.length === 0 ? <p class="quiet-line">{c("empty")}</p> : (
            <>
              {file.mark && <p class="quiet-line space-below">{c(file.mark)}</p>}
              <div class="code-text" tabIndex={0} role="region" aria-label={file.path}>
                <div class="lines"><div class="numbers" aria-hidden="true">{lines.slice(0, kLinesMost).map((_, i) => <div key={i}>{i + 1}</div>)}</div><pre>{lines.slice(0, kLinesMost).join("\n")}</pre></div>
              </div>
              {(entry.data.length > kTextMost || lines.length > kLinesMost) && <p class="quiet-line">{c("long", { size: lines.length > kLinesMost ? count(kLinesMost) : size(kTextMost), whole: lines.length > kLinesMost ? count(lines.length) : size(entry.data.length) })}</p>}
            </>
          )}
    </Card>
  );
}
