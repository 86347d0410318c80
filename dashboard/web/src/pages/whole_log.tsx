// Viewer of a whole log of a million lines or more; only the viewed pages are in memory.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import type { Filter } from "../live/protocol";
import { link, query, route, set_query } from "../router";
import { Icon } from "../ui/icons";
import { Empty, Failed, Loading, Select, Toggle, count, failure, size } from "../ui/parts";
import { LogPages, kLineHeight, kPageLines, lines_above, scroll_height, top_for, type NumberedLine } from "./log_pages";
import { find_back, find_trouble, kFoundMax, read_log, type Found, type LogOf } from "./log_search";
import { LogTime } from "./log_time";
import { bare, cut, tone_of, without_start } from "./log_text";

const kLookEvery = 1000;  // Interval in ms of polls for new lines while following the end.
const kTryAgain = 2000;   // Delay in ms after a failed request.
const kTyping = 250;      // Delay in ms between the last key and the search.

export function WholeLog({ filter }: { filter: Filter }) {
  const of: LogOf = { filter, stream: query("stream", "out"), run: query("run") };
  const [runs, set_runs] = useState<{ run: number; out_bytes: number; err_bytes: number }[]>([]);
  const chosen = runs.find((one) => String(one.run) === of.run) ?? runs[runs.length - 1];
  const choices = chosen && (
    <>
      {runs.length > 1 && <Select label={t("logs.run")} value={String(chosen.run)} on_change={(run) => set_query({ run, line: null })} options={runs.map((one): [string, string] => [String(one.run), t("logs.run_n", { number: one.run })])} />}
      <Select label={t("logs.stream")} value={of.stream} on_change={(stream) => set_query({ stream, line: null })}
        options={[["out", `${t("logs.out")} · ${size(chosen.out_bytes)}`], ["err", `${t("logs.err")} · ${size(chosen.err_bytes)}`]]} />
    </>
  );
  return <Lines key={JSON.stringify(of)} of={of} choices={choices} on_runs={set_runs} />;
}

function Lines({ of, choices, on_runs }: { of: LogOf; choices: preact.ComponentChildren; on_runs: (runs: LogPart["runs"]) => void }) {
  const [pages] = useState(() => new LogPages());
  const [, redraw] = useState(0);
  const [error, set_error] = useState<unknown>(null);
  const [follow, set_follow] = useState(!query("line") && !query("q"));
  const [known, set_known] = useState(false);
  const [said, set_said] = useState("");
  const here = useRef(true);
  useEffect(() => () => { here.current = false; }, []);
  const line = Number(query("line")) || 0;
  const text = query("q").trim();
  const { found, refused } = use_search(of, text);
  const view = useRef<View | null>(null);

  const busy = useRef(false);
  const load = async (page: number) => {
    if (busy.current) return;
    busy.current = true;
    try {
      const part = await read_log(of, { from: LogPages.start_of(Math.max(0, page)), lines: kPageLines });
      if (!here.current) return;
      if (part.runs.length) on_runs(part.runs);
      // Old lines may have been removed meanwhile; the answer then begins with the first line that exists.
      pages.add(part.lines.length ? LogPages.page_of(part.lines[0].line) : Math.max(0, page), part);
      set_error(null);
      set_known(true);
    } catch (refused) {
      if (here.current) set_error(refused);
      await new Promise((done) => setTimeout(done, kTryAgain));
    } finally {
      busy.current = false;
      if (here.current) redraw((n) => n + 1);
    }
  };
  const look = () => (pages.last ? load(LogPages.page_of(pages.last + 1)) : load(0));
  useEffect(() => void load(line ? LogPages.page_of(line) : 0), []);
  useEffect(() => {
    if (!follow || text) return undefined;
    const timer = setInterval(() => { if (document.visibilityState === "visible") void look(); }, kLookEvery);
    return () => clearInterval(timer);
  }, [follow, text]);

  const go = (to: number) => set_query({ line: to ? String(to) : null, q: null });
  const jump = async (step: 1 | -1) => {
    const from = line || view.current?.middle() || pages.first;
    set_follow(false);
    try {
      const next = await find_trouble(of, from + step, step);
      if (!here.current) return;
      set_said(next ? "" : t(step > 0 ? "logs.no_error_after" : "logs.no_error_before", { line: count(from) }));
      if (next) go(next);
    } catch (refused) {
      set_said(failure(refused).what);
    }
  };
  if (error && !known) {
    const { what, next } = failure(error);
    return <div class="logs fill"><div class="tools">{choices}</div><Failed what={what} next={next} /></div>;
  }
  const total = Math.max(0, pages.last - pages.first + 1);
  return (
    <div class="logs fill">
      <div class="tools">
        <SearchBox />
        {choices}
        <Toggle label={t("logs.follow")} on={follow && !text} on_change={(on) => { set_follow(on); if (on) go(0); }} />
        <span class="pair">
          <button type="button" class="button" onClick={() => void jump(-1)} aria-label={t("logs.error_before")} title={t("logs.error_before")}><Icon name="up" /></button>
          <button type="button" class="button" onClick={() => void jump(1)}>{t("logs.error_next")}<Icon name="down" /></button>
        </span>
        <GoTo line={line} most={pages.last} go={(to) => { set_follow(false); go(to); }} />
        <span class="count" role="status">{said || (error ? failure(error).what : text ? found_text(found) : t("logs.count", { n: total, shown: count(total) }))}</span>
      </div>
      {pages.first > 1 && !text && <p class="log-note"><Icon name="info" />{t("logs.gone", { last: count(pages.first - 1) })}</p>}
      {text && refused ? <Failed {...failure(refused)} /> : !known || (text && !found) ? <Loading /> : text ? <FoundLines found={found!} text={text} /> : total === 0 ? (
        <Empty icon="logs" title={t("logs.none")}>{t("logs.none.next")}</Empty>
      ) : (
        <Sheet pages={pages} line={line} follow={follow} set_follow={set_follow} load={load} view={view} />
      )}
    </div>
  );
}

type LogPart = Awaited<ReturnType<typeof read_log>>;

const found_text = (found: Found | null) =>
  !found ? t("logs.searching") : !found.done ? t("logs.searching_found", { n: count(found.lines.length) }) : found.next ? t("logs.found_newest", { n: count(found.lines.length) }) : t("logs.found", { n: found.lines.length, shown: count(found.lines.length) });

function SearchBox() {
  const [text, set_text] = useState(query("q"));
  const asked = query("q");
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => { if (document.activeElement !== box.current) set_text(asked); }, [asked]);
  useEffect(() => {
    const timer = setTimeout(() => { if (text !== query("q")) set_query({ q: text, before: null }); }, kTyping);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label class="filter">
      <Icon name="search" />
      <span class="visually-hidden">{t("logs.search")}</span>
      <input ref={box} type="search" data-filter value={text} placeholder={t("logs.search")} maxLength={100} onInput={(event) => set_text(event.currentTarget.value)} spellcheck={false} />
      <kbd>/</kbd>
    </label>
  );
}

function GoTo({ line, most, go }: { line: number; most: number; go: (line: number) => void }) {
  return (
    <form class="go-to" onSubmit={(event) => {
      event.preventDefault();
      const wanted = Number(new FormData(event.currentTarget).get("line"));
      if (wanted > 0) go(Math.min(Math.floor(wanted), Math.max(1, most)));
    }}>
      <label class="select"><span>{t("logs.line")}</span><input key={line} name="line" inputMode="numeric" pattern="[0-9]*" autocomplete="off" value={line || ""} size={8} /></label>
    </form>
  );
}

// Returns the newest matching lines; null until the first answer. `refused`: the error.
function use_search(of: LogOf, text: string): { found: Found | null; refused: unknown } {
  const [found, set_found] = useState<Found | null>(null);
  const [refused, set_refused] = useState<unknown>(null);
  const before = Number(query("before")) || 0;
  useEffect(() => {
    set_found(null);
    set_refused(null);
    if (!text) return undefined;
    let wanted = true;
    find_back(of, text, before, (some) => {
      if (wanted) set_found(some);
      return wanted;
    }).catch((error) => { if (wanted) set_refused(error); });
    return () => { wanted = false; };
  }, [text, before]);
  return { found, refused };
}

function FoundLines({ found, text }: { found: Found; text: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [top, set_top] = useState(0);
  const height = use_height(box, found.lines.length > 0);
  useLayoutEffect(() => { if (box.current) box.current.scrollTop = box.current.scrollHeight; }, [found.lines.length]);
  if (found.done && found.lines.length === 0) {
    return <Empty icon="search" title={t("logs.nothing", { text })}>{t("logs.nothing.next")}</Empty>;
  }
  const { path, query: now } = route.value;
  const { q: _q, before: _before, ...rest } = now;
  return (
    <>
      {found.done && found.next > 0 && (
        <p class="log-note"><Icon name="info" />{t("logs.more", { n: count(kFoundMax) })} <a href={link(path, { ...now, before: String(found.next) })}>{t("logs.older")}</a></p>
      )}
      <LineBox box={box} window={height} height={found.lines.length * kLineHeight} digits={digits_of(found.lines[found.lines.length - 1]?.line ?? 0)} on_scroll={() => set_top(box.current?.scrollTop ?? 0)}
        above={top / kLineHeight} rows={found.lines.slice(Math.floor(top / kLineHeight), Math.ceil((top + height) / kLineHeight) + 1)}
        index={(i) => Math.floor(top / kLineHeight) + i} href={(line) => link(path, { ...rest, line: String(line) })} text={text} at={0} />
    </>
  );
}

interface View {
  middle(): number;  // Line in the middle of the box.
}

function Sheet({ pages, line, follow, set_follow, load, view }: {
  pages: LogPages; line: number; follow: boolean; set_follow: (on: boolean) => void; load: (page: number) => void; view: { current: View | null };
}) {
  const box = useRef<HTMLDivElement>(null);
  const [above, set_above] = useState(0);
  const height = use_height(box, true);
  const total = pages.last - pages.first + 1;
  const top = useRef(0);
  const from = pages.first + Math.floor(above), to = pages.first + Math.ceil(above + height / kLineHeight);
  view.current = { middle: () => Math.round(pages.first + above + height / kLineHeight / 2) };

  const show = (wanted: number) => {
    const element = box.current!;
    element.scrollTop = top_for(total, wanted, element.clientHeight);
    top.current = element.scrollTop;
    set_above(lines_above(total, element.scrollTop, element.clientHeight));
  };
  // Centres the requested line, unless it is visible already.
  useLayoutEffect(() => {
    if (!line) return;
    const at = line - pages.first;
    if (at < above + 1 || at > above + height / kLineHeight - 2) show(at - height / kLineHeight / 2);
  }, [line]);
  useLayoutEffect(() => { if (follow) show(total); }, [follow, total, height]);
  // When old lines are removed, the visible lines stay in place.
  const first = useRef(pages.first);
  useLayoutEffect(() => {
    const gone = pages.first - first.current;
    first.current = pages.first;
    if (gone > 0 && !follow) show(Math.max(0, above - gone));
  }, [pages.first]);
  const missing = pages.missing(from, to);
  useEffect(() => { if (missing >= 0) load(missing); });

  const on_scroll = () => {
    const element = box.current;
    if (!element) return;
    const next = element.scrollTop;
    if (Math.abs(next - top.current) < 1) return;
    const end = element.scrollHeight - next - element.clientHeight < 4;
    if (end !== follow && (end ? !line : next < top.current)) set_follow(end);
    top.current = next;
    set_above(lines_above(total, next, element.clientHeight));
  };
  const rows: NumberedLine[] = [];
  for (let i = from; i <= Math.min(to, pages.last); i++) rows.push(pages.get(i) ?? { line: i, text: "" });
  const { path, query: now } = route.value;
  return <LineBox box={box} window={height} height={scroll_height(total)} digits={digits_of(pages.last)} on_scroll={on_scroll} above={above} rows={rows} index={(i) => from + i - pages.first}
    href={(one) => link(path, { ...now, line: String(one) })} text="" at={line} />;
}

// Returns the height of the box once it exists.
function use_height(box: { current: HTMLDivElement | null }, there: boolean): number {
  const [height, set_height] = useState(600);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => set_height(element.clientHeight));
    watch.observe(element);
    set_height(element.clientHeight);
    return () => watch.disconnect();
  }, [there]);
  return height;
}

const digits_of = (line: number) => String(line).length;

// The lines are in a sticky window; the tall element behind it sets the length of the scroll bar.
function LineBox({ box, window, height, digits, on_scroll, above, rows, index, href, text, at }: {
  box: { current: HTMLDivElement | null }; window: number; height: number; digits: number; on_scroll: () => void; above: number; rows: NumberedLine[];
  index: (i: number) => number; href: (line: number) => string; text: string; at: number;
}) {
  const timed = rows.some((row) => row.time_ms);
  return (
    <div class="log-scroll" ref={box} tabIndex={0} role="log" aria-live="off" aria-label={t("nav.logs")} onScroll={on_scroll}>
      <div class="log-lines" style={{ height: height + "px" }}>
        <div class="log-window" style={{ height: Math.min(window, height) + "px" }}>
          {rows.map((row, i) => {
            const tone = tone_of(row);
            return (
              <div key={i} class={`log-line${tone ? ` tone-${tone}` : ""}${row.line === at ? " at" : ""}`} style={{ transform: `translateY(${(index(i) - above) * kLineHeight}px)` }}>
                <a class="log-number" style={{ minWidth: digits + "ch" }} href={href(row.line)} aria-label={t("logs.line_n", { line: row.line })}>{row.line}</a>
                {timed && <LogTime ms={row.time_ms} />}
                <span class="log-text">{cut(bare(without_start(row)), text).map((part, j) => (part.hit ? <mark key={j}>{part.text}</mark> : part.text))}</span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
