// Tasks by function: running, recently ended, failed and waiting ones.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../api";
import { reason_of, t } from "../i18n";
import { use_topic } from "../live/use";
import { link } from "../router";
import { Empty, Failed, Head, Loading, Middle, count, failure, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { functions_of, type FunctionRow, type TraceEvent } from "./functions";

const kRunner = "volador::TaskRunner";
const kEvery = 10_000;    // In ms; each poll asks every process.
const kEach = 300;        // Events per thread; bounds the answer.

export function Tasks() {
  const [answer, set_answer] = useState<{ events?: TraceEvent[]; missing?: string[]; error?: unknown }>({});
  const actors = use_topic("actors", {}, 1000);
  const queue = use_topic("queue", {}, 500);
  useEffect(() => {
    let gone = false;
    const load = () => {
      if (document.visibilityState === "hidden") return;
      call<{ traceEvents: TraceEvent[]; missing?: string[] }>("GET", `/api/v1/timeline?limit=${kEach}`).then(
        (found) => { if (!gone) set_answer({ events: found.traceEvents, missing: found.missing }); },
        (error: unknown) => { if (!gone) set_answer((before) => (before.events ? before : { error })); });
    };
    load();
    const timer = setInterval(load, kEvery);
    return () => { gone = true; clearInterval(timer); };
  }, []);
  const runners = useMemo(() => actors.list().filter((one) => one.class_name === kRunner), [actors.list()]);
  const rows = useMemo(() => functions_of(answer.events ?? [], new Set(runners.map((one) => one.id))), [answer.events, runners]);
  const waiting = queue.list().filter((one) => one.kind === "task");
  const columns: Column<FunctionRow>[] = [
    { key: "name", title: t("tasks.function"), width: 320, small: true, look: (row) => row.name, cell: (row) => <b class="row-link"><Middle text={row.name} kept={16} /></b> },
    { key: "running", title: t("tasks.running"), width: 100, right: true, small: true, look: (row) => row.running, cell: (row) => <span class="num">{count(row.running)}</span> },
    { key: "ended", title: t("tasks.ended"), width: 110, right: true, small: true, look: (row) => row.ended, cell: (row) => <span class="num">{count(row.ended)}</span> },
    { key: "failed", title: t("tasks.failed"), width: 100, right: true, small: true, look: (row) => row.failed, cell: (row) => <span class={`num${row.failed ? " tone-bad" : ""}`}>{count(row.failed)}</span> },
    { key: "mean", title: t("tasks.mean"), width: 120, right: true, small: true, look: (row) => (row.ended ? row.ms / row.ended : null), cell: (row) => <span class="num">{row.ended ? span_short(row.ms / row.ended) : "–"}</span> },
    { key: "total", title: t("tasks.total"), width: 130, right: true, look: (row) => row.ms, cell: (row) => <span class="num">{span_short(row.ms)}</span> },
  ];
  const ready = runners.filter((one) => one.state === "alive" || one.state === "starting").length;
  return (
    <>
      <Head title={t("nav.tasks")} facts={
        <p class="sub"><span>{t("tasks.places", { n: ready, ready: count(ready) })}</span>{waiting.length > 0 && <a href={link(["queue"], { q: "kind:task" })}>{t("tasks.waiting", { n: waiting.length, shown: count(waiting.length) })}</a>}</p>
      }>
        {waiting.length > 0 && <p class="reason head-reason"><a href={link(["queue"], { id: waiting[0].id })}>{reason_of(waiting[0])}</a></p>}
      </Head>
      <div class="page-body fill">
        {answer.error ? <Failed {...failure(answer.error)} /> : !answer.events ? <Loading /> : (
          <Table label={t("nav.tasks")} rows={rows} columns={columns} id={(row) => row.id}
            tools={<span class="soft">{answer.missing?.length ? t("tasks.missing", { n: answer.missing.length }) : t("tasks.lately")}</span>}
            empty={<Empty icon="tasks" title={t("tasks.none")} code="auto ninth = volador::task<&amp;square>(3).submit();">{t("tasks.none.next")}</Empty>} />
        )}
      </div>
    </>
  );
}

// Formats the duration of calls, which are often shorter than a second.
const span_short = (ms: number) => (ms < 1 ? t("tasks.us", { n: Number((ms * 1000).toPrecision(2)) }) : ms < 1000 ? t("tasks.ms", { n: ms >= 100 ? Math.round(ms) : Number(ms.toPrecision(2)) }) : span(ms));
