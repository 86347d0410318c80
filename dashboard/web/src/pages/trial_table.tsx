// Live table of all trials of an experiment, up to 10,000 rows.
import { useMemo, useState } from "preact/hooks";
import { plain } from "../format";
import { locale, t, why_of } from "../i18n";
import type { Experiment, Trial } from "../live/protocol";
import { go, link, query, set_query } from "../router";
import { Empty, RowLink, Select, State, count, num } from "../ui/parts";
import { kTrialStates } from "../ui/states";
import { word } from "../i18n";
import { Table, type Column } from "../ui/table";
import { ManyTrials } from "./many";
import { TagList } from "./notes";
import { flat, metrics, parameters, rungs_reached, shown_name } from "./trials";

export function TrialTable({ trials, experiment }: { trials: Trial[]; experiment: Experiment }) {
  const shape = useMemo(() => ({ params: parameters(trials), names: metrics(trials, experiment) }), [trials.length, experiment.metric, Math.floor((experiment.updated_ms ?? 0) / 5000)]);
  const language_now = locale();
  const [named, tagged] = [trials.some((one) => one.name), trials.some((one) => one.tags?.length)];
  const own = experiment.scheduler?.rungs;
  const reached = useMemo(() => rungs_reached(own), [own]);
  const columns = useMemo(() => columns_of(shape.params.filter((one) => one.varies), shape.names, experiment, named, tagged, reached), [shape, experiment.name, named, tagged, reached, language_now]);
  const [chosen, set_chosen] = useState<Set<string>>(new Set());
  const status = /(^| )status:(\w+)/.exec(query("q"))?.[2] ?? "";
  const choose = (state: string) => {
    const rest = query("q").replace(/(^| )status:\w+/, "").trim();
    set_query({ q: [state && "status:" + state, rest].filter(Boolean).join(" ") });
  };
  return (
    <Table label={t("col.trials")} optional rows={trials} columns={columns} id={(row) => row.id} open={(row) => go(["experiments", experiment.name, "trials", row.id])}
      order={(experiment.mode === "min" ? "" : "-") + experiment.metric}
      tools={<Select label={t("col.status")} value={status} on_change={choose} options={[["", t("all")], ...kTrialStates.map((state): [string, string] => [state, word(state)])]} />}
      choose={{ chosen, set: set_chosen, name: shown_name, bar: () => <ManyTrials experiment={experiment} trials={trials.filter((one) => chosen.has(one.id))} on_clear={() => set_chosen(new Set())} /> }}
      empty={<Empty icon="experiments" title={t("trials.none")} />} />
  );
}

function columns_of(params: ReturnType<typeof parameters>, names: string[], experiment: Experiment, named: boolean, tagged: boolean, reached: Map<string, number>): Column<Trial>[] {
  const metric_column = (name: string): Column<Trial> => ({
    key: name, title: name, width: 100, right: true, small: name === experiment.metric,
    look: (row) => row.metrics?.[name],
    cell: (row) => (name === experiment.metric ? <b class="num">{num(row.metrics?.[name])}</b> : <span class="num">{num(row.metrics?.[name])}</span>),
  });
  const cell_of = (value: unknown) => (typeof value === "number" || typeof value === "string" ? value : value === undefined ? null : JSON.stringify(value));
  return [
    { key: "trial", title: t("col.trial"), width: 100, small: true, look: (row) => row.id, cell: (row) => <RowLink path={["experiments", experiment.name, "trials", row.id]}><code title={row.name}>{row.id.slice(0, 8)}</code></RowLink> },
    ...(named ? [{ key: "name", title: t("col.name"), width: 170, look: (row: Trial) => row.name, cell: (row: Trial) => <span title={row.name}>{row.name ?? "–"}</span> }] : []),
    { key: "status", card: "side", title: t("col.status"), width: 176, small: true, look: (row) => row.status, cell: (row) => <State of={row.status} /> },
    { key: "step", title: t("col.step"), width: 58, right: true, small: true, look: (row) => row.step, cell: (row) => <span class="num">{count(row.step)}</span> },
    ...(reached.size ? [{ key: "rung", title: t("col.rung"), width: 58, right: true, look: (row: Trial) => reached.get(row.id), cell: (row: Trial) => <span class="num">{count(reached.get(row.id))}</span> }] : []),
    ...names.slice(0, 1).map(metric_column),
    ...params.slice(0, 16).map((param): Column<Trial> => ({
      key: param.path, title: param.path, width: 100, right: param.numeric, look: (row) => cell_of(flat(row)[param.path]),
      cell: (row) => <span class={param.numeric ? "num" : ""}>{plain(flat(row)[param.path], locale())}</span>,
    })),
    ...names.slice(1, 8).filter((name) => name !== "training_iteration").map(metric_column),
    ...(tagged ? [{ key: "tags", title: t("col.tags"), width: 140, look: (row: Trial) => (row.tags ?? []).join(" "), cell: (row: Trial) => <TagList tags={row.tags} /> }] : []),
    { key: "node", title: t("col.node"), width: 100, look: (row) => row.node, cell: (row) => (row.node ? <a href={link(["nodes", row.node])}>{row.node}</a> : <span class="soft">–</span>) },
    { key: "reason", card: "wide", title: t("col.reason"), width: 240, look: (row) => why_of(row), cell: (row) => <span class={row.error ? "tone-bad" : "soft"} title={why_of(row)}>{why_of(row)}</span> },
  ];
}
