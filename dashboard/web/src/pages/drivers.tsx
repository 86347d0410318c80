// The list of drivers, and the page of a driver with its experiments and actors.
import { useMemo } from "preact/hooks";
import { day_time } from "../format";
import { locale, t } from "../i18n";
import type { Driver, Experiment } from "../live/protocol";
import { head_now, use_tick, use_topic } from "../live/use";
import { go, link, query, set_query } from "../router";
import { program_name } from "../ui/names";
import { Card, Empty, Facts, Head, Missing, RowLink, Rows, State, StateBar, Toggle, TokenLink, count, num, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { actor_columns } from "./actors";

const connected_for = (row: Driver) => (row.connected_ms ? span(head_now() - row.connected_ms) : "–");
const name_of = (row: Driver) => program_name(row.program) || row.id.slice(0, 8);

// Returns a function that counts the rows of each driver.
function use_counts(rows: { driver_id?: string }[]): (row: Driver) => number {
  return useMemo(() => {
    const counts = new Map<string, number>();
    for (const { driver_id } of rows) if (driver_id) counts.set(driver_id, (counts.get(driver_id) ?? 0) + 1);
    return (row: Driver) => counts.get(row.id) ?? 0;
  }, [rows]);
}

export function Drivers() {
  use_tick(5000);
  const drivers = use_topic("drivers", {}, 200);
  const told = drivers.list();
  const actors = use_topic("actors", {}, 1000).list();
  const living = use_counts(useMemo(() => actors.filter((one) => one.state !== "dead"), [actors]));
  const runs = use_counts(use_topic("experiments", {}, 1000).list());
  const all: (Column<Driver> | false)[] = [
    { key: "program", title: t("col.program"), width: 220, small: true, look: (row) => row.program, cell: (row) => <RowLink path={["drivers", row.id]}>{name_of(row)}</RowLink> },
    { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: (row) => row.state, cell: (row) => <State of={row.state} /> },
    told.some((row) => row.host) && { key: "host", title: t("col.host"), width: 150, small: true, look: (row) => row.host ?? "", cell: (row) => (row.host ? <a href={link(["nodes", row.host])}>{row.host}</a> : <span class="soft">–</span>) },
    { key: "pid", title: t("col.pid"), width: 90, right: true, look: (row) => row.pid, cell: (row) => <span class="num">{row.pid}</span> },
    told.some((row) => row.connected_ms) && { key: "connected", title: t("col.connected"), width: 140, right: true, look: (row) => row.connected_ms, cell: (row) => <span class="num">{connected_for(row)}</span> },
    { key: "runs", title: t("nav.experiments"), width: 110, right: true, small: true, look: runs, cell: (row) => <span class="num">{count(runs(row))}</span> },
    { key: "actors", title: t("drivers.actors"), width: 130, right: true, small: true, look: living, cell: (row) => <span class="num">{count(living(row))}</span> },
    { key: "id", title: t("col.id"), width: 120, look: (row) => row.id, cell: (row) => <code>{row.id.slice(0, 8)}</code> },
  ];
  const columns = all.filter((column) => column !== false);
  return (
    <>
      <Head title={t("nav.drivers")} />
      <div class="page-body fill">
        <Rows of={drivers}>
          {(rows) => <Table label={t("nav.drivers")} rows={rows} columns={columns} id={(row) => row.id} order="-connected" open={(row) => go(["drivers", row.id])}
            empty={<Empty icon="drivers" title={t("drivers.none")} code="build/bin/hello_actor">{t("drivers.none.next")}</Empty>} />}
        </Rows>
      </div>
    </>
  );
}

export function DriverPage({ id }: { id: string }) {
  use_tick(5000);
  const drivers = use_topic("drivers", {}, 200);
  const driver = drivers.get(id);
  const trail = [{ text: t("nav.drivers"), path: ["drivers"] }];
  if (!driver) {
    return <Missing of={drivers} trail={trail} title={id.slice(0, 8)} what={t("driver.unknown", { id: id.slice(0, 8) })} next={t("driver.unknown.next")} />;
  }
  return (
    <>
      <Head trail={trail} title={name_of(driver)} state={driver.state} />
      <div class="page-body">
        <div class="columns">
          <div class="stack">
            <Card title={t("driver.runs")}><RunsOf driver={driver} /></Card>
            <Card title={t("driver.actors")}><ActorsOf driver={driver} /></Card>
          </div>
          <div class="stack side">
            <Card title={t("driver.about")}>
              <Facts of={[
                ["col.program", <span class="wrap">{driver.program}</span>], ["col.host", driver.host && <a href={link(["nodes", driver.host])}>{driver.host}</a>],
                ["col.pid", driver.pid], ["col.connected", driver.connected_ms ? connected_for(driver) : ""], ["col.owner", driver.owner && <TokenLink id={driver.owner} />], ["col.id", <code>{driver.id}</code>],
              ]} />
            </Card>
          </div>
        </div>
      </div>
    </>
  );
}

function RunsOf({ driver }: { driver: Driver }) {
  const rows = use_topic("experiments", {}, 500).list().filter((one) => one.driver_id === driver.id);
  const columns: Column<Experiment>[] = [
    { key: "name", title: t("col.name"), width: 200, small: true, look: (row) => row.name, cell: (row) => <RowLink path={["experiments", row.name]}>{row.name}</RowLink> },
    { key: "state", card: "side", title: t("col.state"), width: 110, small: true, look: (row) => row.state, cell: (row) => <State of={row.state} /> },
    { key: "trials", title: t("col.trials"), width: 76, right: true, small: true, look: (row) => row.trials_total, cell: (row) => <span class="num">{count(row.trials_total)}</span> },
    { key: "progress", title: t("col.progress"), width: 110, look: (row) => row.trials_by_status.running ?? 0, cell: (row) => <StateBar counts={row.trials_by_status} total={row.trials_total} /> },
    { key: "metric", title: t("col.metric"), width: 100, look: (row) => row.metric },
    { key: "best", title: t("col.best"), width: 90, right: true, small: true, look: (row) => row.best?.value, cell: (row) => <b class="num">{num(row.best?.value)}</b> },
    { key: "started", title: t("col.started"), width: 120, right: true, look: (row) => row.started_ms, cell: (row) => <span class="num">{row.started_ms ? day_time(row.started_ms, head_now(), locale()) : "–"}</span> },
  ];
  return <Table label={t("driver.runs")} rows={rows} columns={columns} id={(row) => row.id} order="-started" prefix="runs." bare height={300} open={(row) => go(["experiments", row.name])}
    empty={<p class="quiet-line">{t("driver.no_runs")}</p>} />;
}

function ActorsOf({ driver }: { driver: Driver }) {
  const all = use_topic("actors", {}, 500).list().filter((one) => one.driver_id === driver.id);
  const ended = query("dead") === "1";
  const rows = ended ? all : all.filter((one) => one.state !== "dead");
  return (
    <>
      {rows.length !== all.length || ended ? <p class="table-turn"><Toggle label={t("actors.dead")} on={ended} on_change={(on) => set_query({ dead: on ? "1" : null })} /></p> : null}
      <Table label={t("driver.actors")} rows={rows} columns={actor_columns()} id={(row) => row.id} order="display" prefix="actors." bare height={420} open={(row) => go(["actors", row.id])}
        empty={<p class="quiet-line">{t("driver.no_actors")}</p>} />
    </>
  );
}
