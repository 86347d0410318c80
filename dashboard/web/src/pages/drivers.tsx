// The programs that use the cluster.
import { useMemo } from "preact/hooks";
import { t } from "../i18n";
import type { Driver } from "../live/protocol";
import { head_now, use_tick, use_topic } from "../live/use";
import { link } from "../router";
import { Empty, Head, Rows, State, count, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";

export function Drivers() {
  use_tick(5000);
  const drivers = use_topic("drivers", {}, 200);
  const base = (path: string) => path.split("/").pop() || path;
  const told = drivers.list();
  const actors = use_topic("actors", {}, 1000).list();
  // Actors name the program that made them, not its process: two that run the same program cannot be told apart.
  const living = useMemo(() => {
    const counts = new Map<string, number>();
    for (const one of actors) if (one.state !== "dead") counts.set(one.driver, (counts.get(one.driver) ?? 0) + 1);
    return (row: Driver) => (told.filter((other) => other.program === row.program).length > 1 ? null : counts.get(row.program) ?? 0);
  }, [actors, told]);
  const all: (Column<Driver> | false)[] = [
    { key: "program", title: t("col.program"), width: 220, small: true, look: (row) => row.program, cell: (row) => <span title={row.program}>{base(row.program) || row.id.slice(0, 8)}</span> },
    { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: (row) => row.state, cell: (row) => <State of={row.state} /> },
    told.some((row) => row.host) && { key: "host", title: t("col.host"), width: 150, small: true, look: (row) => row.host ?? "", cell: (row) => (row.host ? <a href={link(["nodes", row.host])}>{row.host}</a> : <span class="soft">–</span>) },
    { key: "pid", title: t("col.pid"), width: 90, right: true, look: (row) => row.pid, cell: (row) => <span class="num">{row.pid}</span> },
    told.some((row) => row.connected_ms) && { key: "connected", title: t("col.connected"), width: 140, right: true, look: (row) => row.connected_ms, cell: (row) => <span class="num">{row.connected_ms ? span(head_now() - row.connected_ms) : "–"}</span> },
    { key: "actors", title: t("drivers.actors"), width: 130, right: true, small: true, look: living, cell: (row) => <span class="num">{count(living(row))}</span> },
    { key: "id", title: t("col.id"), width: 120, look: (row) => row.id, cell: (row) => <code>{row.id.slice(0, 8)}</code> },
  ];
  const columns = all.filter((column) => column !== false);
  return (
    <>
      <Head title={t("nav.drivers")} />
      <div class="page-body fill">
        <Rows of={drivers}>
          {(rows) => <Table label={t("nav.drivers")} rows={rows} columns={columns} id={(row) => row.id} order="-connected"
            empty={<Empty icon="drivers" title={t("drivers.none")} code="build/bin/hello_actor">{t("drivers.none.next")}</Empty>} />}
        </Rows>
      </div>
    </>
  );
}
