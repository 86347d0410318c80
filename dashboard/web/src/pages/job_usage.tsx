// Hours of CPUs and GPUs that jobs used, by day, project and owner, and the hours that nothing used.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { css, group_color, with_alpha } from "../charts/colors";
import { StackedBars, type Part } from "../charts/stacked";
import { locale, t, type Key } from "../i18n";
import { use_answer } from "../live/poll";
import { head_now } from "../live/use";
import { dark } from "../prefs";
import { link, query, set_query } from "../router";
import { Icon } from "../ui/icons";
import { Card, Empty, Failed, Head, Loading, Middle, Select, TokenLink, count, failure, num, share } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { by_day, by_owner, days_until, is_idle, rows_of_days, total_of, usage_csv, type Hours, type UsageRow } from "./job_usage_rows";
import { save_text } from "./logs";

const kDays = [7, 30, 90];
const kHours: Hours[] = ["gpu_hours", "cpu_hours", "memory_gib_hours"];
const kRows = 20_000;
const kEvery = 60_000;  // In ms.
const title_of = (hours: Hours) => t(`hours.${hours}` as Key);
const hours_text = (value: number) => num(Math.round(value * 100) / 100);

const Figure = ({ name, value, note }: { name: string; value: string; note: string }) => (
  <div class="tile">
    <span class="tile-name">{name}</span>
    <span class="tile-value"><b class="num">{value}</b></span>
    <span class="tile-note">{note}</span>
  </div>
);

function Days({ rows, days, hours, tools }: { rows: UsageRow[]; days: string[]; hours: Hours; tools: ComponentChildren }) {
  const { parts, stacks } = useMemo(() => {
    const table = by_day(rows, days, hours);
    const named = [...table.names, ...(table.others ? [t("hours.others")] : [])].map((name, i): Part => ({ name, color: group_color(i) }));
    return { parts: [...named, { name: t("hours.idle"), color: with_alpha(css("muted"), 0.4) }], stacks: table.rows.map((row) => ({ x: row.day.slice(5), values: row.values })) };
  }, [rows, days, hours, dark.value, locale()]);
  return (
    <>
      <StackedBars label={`${title_of(hours)}, ${t("hours.by_day")}`} parts={parts} rows={stacks} height={260} show={hours_text} x_label={t("hours.day")} tools={tools} />
      <ul class="legend">{parts.map((part) => <li key={part.name}><i style={{ background: part.color }} />{part.name}</li>)}</ul>
    </>
  );
}

const hours_column = (hours: Hours): Column<UsageRow> => ({ key: hours, title: title_of(hours), width: 104, right: true, small: true, look: (row) => row[hours], cell: (row) => <span class="num">{hours_text(row[hours])}</span> });
const columns = (): Column<UsageRow>[] => [
  { key: "project", card: "title", title: t("job.project"), width: 150, small: true, look: (row) => row.project, cell: (row) => (is_idle(row) ? <span class="soft">{t("hours.idle")}</span> : <a href={link(["jobs"], { project: row.project })}><Middle text={row.project} /></a>) },
  { key: "owner", title: t("col.owner"), width: 130, small: true, look: (row) => row.owner, cell: (row) => row.owner && <TokenLink id={row.owner} /> },
  ...kHours.map(hours_column),
  { key: "attempts", title: t("hours.runs"), width: 76, right: true, look: (row) => row.attempts, cell: (row) => <span class="num">{is_idle(row) ? "–" : count(row.attempts)}</span> },
];

export function JobUsage() {
  const { answer, error } = use_answer<{ rows: UsageRow[] }>(`/api/v1/job_usage?order=-day&page_size=${kRows}`, kEvery);
  const range = kDays.includes(Number(query("days"))) ? Number(query("days")) : kDays[1];
  const last = days_until(head_now(), 1)[0];
  const days = useMemo(() => days_until(Date.parse(last), range), [last, range]);
  const rows = useMemo(() => rows_of_days(answer?.rows ?? [], days), [answer, days]);
  const used = total_of(rows.filter((row) => !is_idle(row)));
  const idle = total_of(rows.filter(is_idle));
  const first = used.gpu_hours + idle.gpu_hours > 0 ? "gpu_hours" : "cpu_hours";
  const hours = kHours.find((one) => one === query("hours")) ?? first;
  const note = (of: Hours) => (idle[of] > 0 ? t("hours.idle_share", { share: share(idle[of] / (used[of] + idle[of])) }) : t("hours.used"));
  const actions = (
    <>
      <Select label={t("range")} value={String(range)} options={kDays.map((one) => [String(one), t("hours.days", { n: one })])} on_change={(value) => set_query({ days: value === String(kDays[1]) ? null : value })} />
      <button type="button" class="button" disabled={!rows.length} onClick={() => save_text(`usage-${days[0]}-${days[days.length - 1]}.csv`, usage_csv(rows))}><Icon name="download" />CSV</button>
    </>
  );
  return (
    <>
      <Head trail={[{ text: t("nav.jobs"), path: ["jobs"] }]} title={t("nav.job_usage")} actions={actions} />
      <div class="page-body">
        {!answer && (error ? <Failed {...failure(error)} /> : <Loading />)}
        {answer && !rows.length && <Empty icon="jobs" title={t("hours.none")} code="volador job usage">{t("hours.none.next")}</Empty>}
        {rows.length > 0 && (
          <>
            <div class="tiles" role="group" aria-label={t("hours.totals")}>
              {kHours.map((one) => <Figure key={one} name={title_of(one)} value={hours_text(used[one])} note={note(one)} />)}
              <Figure name={t("hours.runs")} value={count(used.attempts)} note={t("hours.ended")} />
            </div>
            <Card title={t("hours.by_day")}>
              <Days rows={rows} days={days} hours={hours} tools={<Select label={t("hours.resource")} value={hours} options={kHours.map((one) => [one, title_of(one)])} on_change={(value) => set_query({ hours: value === first ? null : value })} />} />
            </Card>
            <Card title={t("hours.by_owner")}>
              <Table label={t("hours.by_owner")} bare prefix="rows." height={420} rows={by_owner(rows)} columns={columns()} id={(row) => JSON.stringify([row.project, row.owner])} order={"-" + hours} empty={null} />
            </Card>
            <p class="quiet-line">{t("hours.about")}</p>
          </>
        )}
      </div>
    </>
  );
}
