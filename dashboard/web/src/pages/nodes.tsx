// The list of nodes, and the page of a node.
import { useEffect, useMemo, useState } from "preact/hooks";
import { call, may } from "../api";
import { reason_of, t, type Key } from "../i18n";
import type { Node, NodeProcess, Series } from "../live/protocol";
import { head_now, use_topic } from "../live/use";
import { go, link, query } from "../router";
import { group_color } from "../charts/colors";
import { LineChart } from "../charts/line_chart";
import { dash_of } from "../charts/lines";
import { Confirm, use_act } from "../ui/confirm";
import { Icon } from "../ui/icons";
import { Card, Empty, Facts, Failed, Head, Loading, Meter, Missing, RowLink, Rows, State, amount, celsius, failure, num, rate, resource_name, share, size, span, watts } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { actor_columns } from "./actors";
import { RangeSelect, band, use_series, type Steps } from "./usage";
import { actor_name } from "../ui/names";

const part_of = (name: string, row: Node) => (row.total?.[name] ? (row.used?.[name] ?? 0) / row.total[name] : null);

const Used = ({ of, resource }: { of: Node; resource: string }) =>
  of.total?.[resource] ? (
    <span class="used" title={(of.used?.[resource] ?? 0) > of.total[resource] ? t("tile.lent") : undefined}>
      <span class="num">{amount(resource, of.used?.[resource] ?? 0)} / {amount(resource, of.total[resource])}</span>
      <Meter part={of.used?.[resource] ?? 0} of={of.total[resource]} label={resource_name(resource)} />
    </span>
  ) : <span class="soft">–</span>;

// A node that takes nothing new because of a health problem looks so.
const shown_state = (node: Node) => (node.state === "alive" && node.problems?.some((one) => one.gpu === undefined) ? "unhealthy" : node.state);

// A node with a bad GPU only has a mark.
function NodeState({ of }: { of: Node }) {
  const state = shown_state(of);
  return (
    <span title={of.problems?.map(reason_of).join("\n")}>
      <State of={state} />{of.problems && state !== "unhealthy" && <> <span class="tone-warn" role="img" aria-label={t("problems")}><Icon name="warning" /></span></>}
    </span>
  );
}

function Problems({ node }: { node: Node }) {
  if (!node.problems) return null;
  return (
    <ul class="warnings" aria-label={t("problems")}>
      {node.problems.map((one) => (
        <li key={one.code + one.gpu + one.subject} class="tone-warn">
          <div><Icon name="warning" /><span>{t(one.gpu === undefined ? "problem.node" : "problem.gpu", { what: reason_of(one), time: span(head_now() - one.since_ms) })}</span></div>
        </li>
      ))}
    </ul>
  );
}

export function Nodes() {
  const nodes = use_topic("nodes", {}, 200);
  const columns: Column<Node>[] = [
    { key: "name", title: t("col.name"), width: 150, small: true, look: (row) => row.name, cell: (row) => <RowLink path={["nodes", row.name]}>{row.name}</RowLink> },
    { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: shown_state, cell: (row) => <NodeState of={row} /> },
    { key: "cpus", title: t("col.cpus_reserved"), width: 150, small: true, look: (row) => part_of("cpus", row), cell: (row) => <Used of={row} resource="cpus" /> },
    { key: "memory", title: t("col.memory_reserved"), width: 190, look: (row) => part_of("memory", row), cell: (row) => <Used of={row} resource="memory" /> },
    { key: "gpus", title: t("resource.gpus"), width: 130, look: (row) => part_of("gpus", row), cell: (row) => <Used of={row} resource="gpus" /> },
    { key: "load", title: t("col.cpu_now"), width: 104, right: true, look: (row) => row.cpu_cores_used, cell: (row) => <span class="num">{num(Math.round(row.cpu_cores_used * 100) / 100)}</span> },
    { key: "memory_now", title: t("col.memory_now"), width: 110, right: true, look: (row) => row.memory_bytes_used, cell: (row) => <span class="num">{size(row.memory_bytes_used)}</span> },
    { key: "actors", title: t("nav.actors"), width: 80, right: true, look: (row) => row.actors, cell: (row) => <span class="num">{row.actors}</span> },
    { key: "address", title: t("col.address"), width: 160, look: (row) => row.address, cell: (row) => <span class="num soft">{row.address}</span> },
  ];
  return (
    <>
      <Head title={t("nav.nodes")} />
      <div class="page-body fill">
        <Rows of={nodes}>
          {(rows) => (
            <Table label={t("nav.nodes")} rows={rows} columns={columns} id={(row) => row.id} order="name" open={(row) => go(["nodes", row.name])}
              empty={<Empty icon="nodes" title={t("nodes.none")} code="volador start --address=HEAD:6380 --token=vt1.…">{t("nodes.none.next")}</Empty>} />
          )}
        </Rows>
      </div>
    </>
  );
}

export function NodePage({ name }: { name: string }) {
  const nodes = use_topic("nodes", {}, 200);
  const node = nodes.list().find((row) => row.name === name || row.id === name);
  const trail = [{ text: t("nav.nodes"), path: ["nodes"] }];
  if (!node) {
    return <Missing of={nodes} trail={trail} title={name} what={t("node.unknown", { name })} next={t("node.unknown.next")} />;
  }
  return (
    <>
      <Head trail={trail} title={node.name} state={shown_state(node)} actions={<><RangeSelect live /><a class="button" href={link(["logs"], { node: node.name })}>{t("nav.logs")}</a>{may("operator") && node.state !== "dead" && <Drain node={node} />}</>} />
      <div class="page-body">
        <Problems node={node} />
        <NodeCharts node={node} />
        <div class="columns">
          <div class="stack">
            <Card title={t("node.actors")}><ActorsOf node={node} /></Card>
            {node.state !== "dead" && <Processes node={node} />}
          </div>
          <div class="stack side">
            <Card title={t("node.resources")}>
              <ul class="resource-list">
                {Object.keys(node.total ?? {}).map((key) => (
                  <li key={key}><span>{resource_name(key)}</span><Used of={node} resource={key} /></li>
                ))}
              </ul>
            </Card>
            {node.gpus && node.gpus.length > 0 && <Gpus node={node} />}
            <Machine node={node} />
            <Card title={t("node.about")}>
              <Facts of={[
                ["col.address", node.address], ["node.version", node.version], ["node.gpu_model", node.gpu_model],
                ["node.heard", node.last_heard_ms > 0 ? t("ago", { time: span(head_now() - node.last_heard_ms) }) : ""],
                ["node.labels", Object.entries(node.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(", ")],
                ["col.id", <code>{node.id}</code>],
              ]} />
            </Card>
          </div>
        </div>
      </div>
    </>
  );
}

const metric_of = (one: Series) => one.metric || one.id.split("/").pop() || "";

// Charts of the last ten minutes from the live series, or of longer ranges from the head's history.
function NodeCharts({ node }: { node: Node }) {
  const range = query("range", "live");
  const live = use_topic(range === "live" ? "series" : null, { node: node.name }, 1000);
  const kept = use_series(range === "live" ? null : { node: node.name }, range);
  const rows: (Series & Partial<Steps>)[] = range === "live" ? live.list().filter((one) => one.id.startsWith(`node/${node.name}/`)) : kept ?? [];
  const lines_of = (row: Series & Partial<Steps>, label: string, color: string) => (row.min ? band(row as Steps, label, color) : [{ id: row.id, label, x: row.x, y: row.y, color }]);
  const chart = (metric: string, title: string, top: number, show: (value: number) => string, color: number) => {
    const found = rows.find((one) => metric_of(one) === metric);
    return (
      <Card title={title} grow>
        {found?.x.length ? (
          <LineChart label={title} height={170} time from_zero fill={range === "live"} top={top} show={show} bytes={metric === "memory_bytes_used"} lines={lines_of(found, title, group_color(color))} />
        ) : <p class="quiet-line pad">{t("chart.soon")}</p>}
      </Card>
    );
  };
  // One line per GPU.
  const gpus = (ending: string, title: string, top: number, show: (value: number) => string) => {
    const found = rows.flatMap((one) => {
      const device = new RegExp(`^gpu(\\d+)_${ending}$`).exec(metric_of(one));
      return device && one.x.length ? [{ id: one.id, label: t("node.gpu_n", { n: device[1] }), x: one.x, y: one.y, color: group_color(Number(device[1]) % 8), dash: dash_of(Number(device[1])) }] : [];
    });
    return found.length > 0 && <Card title={title} grow><LineChart label={title} height={170} time from_zero named top={top} show={show} bytes={ending === "memory_bytes"} lines={found} /></Card>;
  };
  // Shows several measures in one chart; `of`: pairs of measure and label.
  const together = (title: string, of: [string, string][], show: (value: number) => string, bytes = false, top?: number) => {
    const lines = of.flatMap(([metric, label], i) => {
      const found = rows.find((one) => metric_of(one) === metric);
      return found?.x.length ? [{ id: found.id, label, x: found.x, y: found.y, color: group_color(i), dash: dash_of(i) }] : [];
    });
    return lines.length > 0 && <Card title={title} grow><LineChart label={title} height={170} time from_zero named top={top} show={show} bytes={bytes} lines={lines} /></Card>;
  };
  const each_gpu = (ending: string): [string, string][] => (node.gpus ?? []).map((gpu) => [`gpu${gpu.index}_${ending}`, t("node.gpu_n", { n: gpu.index })]);
  const memory = Math.max(1, ...(node.gpus ?? []).map((gpu) => gpu.memory_total ?? 0));
  return (
      <div class="row-cards">
        {chart("cpu_cores_used", t("node.cpu_chart"), node.total?.cpus ?? 1, num, 0)}
        {chart("memory_bytes_used", t("node.memory_chart"), node.total?.memory ?? 1, size, 2)}
        {gpus("utilization_ratio", t("node.gpu_chart"), 1, share)}
        {gpus("memory_bytes", t("node.gpu_memory_chart"), memory, size)}
        {gpus("granted", t("node.gpu_granted_chart"), 1, num)}
        {together(t("node.disk_chart"), [["disk_read_bytes_per_s", t("machine.read")], ["disk_write_bytes_per_s", t("machine.written")]], rate, true, 1024)}
        {together(t("node.network_chart"), [["network_receive_bytes_per_s", t("machine.received")], ["network_send_bytes_per_s", t("machine.sent")]], rate, true, 1024)}
        {together(t("machine.temperature"), [["cpu_temperature_celsius", t("resource.cpu_one")], ...each_gpu("temperature_celsius")], celsius, false, 50)}
        {together(t("machine.power"), [["cpu_power_watts", t("resource.cpu_one")], ...each_gpu("power_watts")], watts, false, 50)}
      </div>
  );
}

function Gpus({ node }: { node: Node }) {
  const actors = use_topic("actors", {}, 500).list().filter((row) => row.node === node.name && row.state !== "dead");
  return (
    <Card title={t("resource.gpus")}>
      <ul class="resource-list">
        {node.gpus!.map((gpu) => {
          const on_it = actors.filter((row) => row.gpus?.includes(gpu.index));
          return (
            <li key={gpu.index}>
              <span>{gpu.index} · {gpu.model || node.gpu_model}</span>
              <span class="used"><span class="num">{t("gpu.granted", { share: share(gpu.granted ?? 0) })}</span><Meter part={gpu.granted ?? 0} of={1} label={t("node.gpu_granted_chart")} /></span>
              {gpu.utilization !== undefined && <span class="used"><span class="num">{t("gpu.used", { share: share(gpu.utilization) })}</span><Meter part={gpu.utilization} of={1} label={t("node.gpu_chart")} /></span>}
              {gpu.memory_total ? <span class="used"><span class="num">{size(gpu.memory_used)} / {size(gpu.memory_total)}</span><Meter part={gpu.memory_used ?? 0} of={gpu.memory_total} label={t("resource.memory")} /></span> : null}
              {(gpu.temperature_celsius !== undefined || gpu.power_watts !== undefined) && (
                <span class="soft num">{[gpu.temperature_celsius !== undefined && celsius(gpu.temperature_celsius),
                  gpu.power_watts !== undefined && (gpu.power_limit_watts ? t("machine.of_limit", { power: watts(gpu.power_watts), limit: watts(gpu.power_limit_watts) }) : watts(gpu.power_watts))].filter(Boolean).join(" · ")}</span>
              )}
              {on_it.length > 0 && <span class="soft">{on_it.slice(0, 4).map((row, i) => <>{i > 0 && ", "}<a key={row.id} href={link(["actors", row.id])}>{actor_name(row)}</a></>)}{on_it.length > 4 && " …"}</span>}
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

const kUses: Record<string, Key> = { logs: "machine.use.logs", "temporary files": "machine.use.temporary", "spilled objects": "machine.use.spilled" };

// Disks, network, temperature and power of the machine, if it reports them.
function Machine({ node }: { node: Node }) {
  const pair = (first: number | undefined, second: number | undefined, names: [Key, Key]) =>
    first === undefined || second === undefined ? <span class="soft">{t("machine.unknown")}</span> : <span class="num">{t(names[0])} {rate(first)} · {t(names[1])} {rate(second)}</span>;
  const one = (value: number | undefined, show: (value: number) => string) => (value === undefined ? <span class="soft">{t("machine.unknown")}</span> : <span class="num">{show(value)}</span>);
  if (node.state === "dead") return null;
  return (
    <Card title={t("machine")}>
      {node.file_systems && (
        <ul class="resource-list">
          {node.file_systems.map((row) => (
            <li key={row.path}>
              <span title={row.type}><code>{row.path}</code>{row.uses.length > 0 && <small> {row.uses.map((use) => (kUses[use] ? t(kUses[use]) : use)).join(" · ")}</small>}</span>
              <span class="used"><span class="num">{t("machine.free", { free: size(row.free), total: size(row.total) })}</span><Meter part={row.total - row.free} of={row.total} label={t("machine.disk_used", { path: row.path })} /></span>
            </li>
          ))}
        </ul>
      )}
      <Facts of={[
        ["machine.disk", pair(node.disk_read_bytes_per_s, node.disk_write_bytes_per_s, ["machine.read", "machine.written"])],
        ["machine.network", pair(node.network_receive_bytes_per_s, node.network_send_bytes_per_s, ["machine.received", "machine.sent"])],
        ["machine.cpu_temperature", one(node.cpu_temperature_celsius, celsius)],
        ["machine.cpu_power", one(node.cpu_power_watts, watts)],
      ]} />
    </Card>
  );
}

const kProcessesEvery = 3000;

// Polls the processes of a node while the tab is visible.
function use_processes(node: string): { rows: NodeProcess[] | null; error: unknown } {
  const [answer, set_answer] = useState<{ rows: NodeProcess[] | null; error: unknown }>({ rows: null, error: null });
  useEffect(() => {
    let gone = false;
    const load = () => {
      if (document.visibilityState === "hidden") return;
      call<{ processes: NodeProcess[] }>("GET", `/api/v1/nodes/${encodeURIComponent(node)}/processes`).then(
        ({ processes }) => { if (!gone) set_answer({ rows: processes, error: null }); },
        (error: unknown) => { if (!gone) set_answer((now) => ({ ...now, error })); });
    };
    load();
    const timer = setInterval(load, kProcessesEvery);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [node]);
  return answer;
}

const kProcessWords: Record<string, Key> = { worker: "process.worker", spare: "process.spare", template: "process.template", head: "process.head", program: "process.program" };

function Processes({ node }: { node: Node }) {
  const { rows, error } = use_processes(node.name);
  const actors = use_topic("actors", {}, 1000).list();
  const columns = useMemo((): Column<NodeProcess>[] => {
    const of = new Map(actors.map((row) => [row.id, row]));
    const runs = (row: NodeProcess) => (row.kind === "actors" ? row.actors.map((id) => (of.has(id) ? actor_name(of.get(id)!) : id.slice(0, 8))).join(", ") : t(kProcessWords[row.kind] ?? "process.spare"));
    const program = (row: NodeProcess) => [...new Set(row.actors.map((id) => of.get(id)?.driver).filter(Boolean))].join(", ") || (row.program ?? "");
    return [
      { key: "runs", title: t("process.runs"), width: 180, small: true, look: runs,
        cell: (row) => (row.actors.length === 0 ? <span class="soft">{runs(row)}</span> : <span title={runs(row)}>{row.actors.slice(0, 3).map((id, i) => <>{i > 0 && ", "}<a href={link(["actors", id])}>{of.has(id) ? actor_name(of.get(id)!) : id.slice(0, 8)}</a></>)}{row.actors.length > 3 && ` +${row.actors.length - 3}`}</span>) },
      { key: "program", title: t("col.program"), width: 130, look: program },
      { key: "pid", title: t("col.pid"), width: 84, right: true, look: (row) => row.pid, cell: (row) => <span class="num">{row.pid}</span> },
      { key: "cpu", title: t("process.cpu"), width: 84, right: true, small: true, look: (row) => row.cpu_cores, cell: (row) => (row.cpu_cores === undefined ? undefined : <span class="num">{num(Math.round(row.cpu_cores * 100) / 100)}</span>) },
      { key: "memory", title: t("process.memory"), width: 120, right: true, small: true, look: (row) => row.memory_bytes, cell: (row) => <span class="num">{size(row.memory_bytes)}</span> },
    ];
  }, [actors]);
  return (
    <Card title={t("process.title")}>
      {rows ? <Table label={t("process.title")} rows={rows} columns={columns} id={(row) => String(row.pid)} bare order="-cpu" prefix="p" height={420} empty={<p class="quiet-line pad">{t("process.none")}</p>} />
        : error ? <Failed {...failure(error)} /> : <Loading />}
    </Card>
  );
}

function ActorsOf({ node }: { node: Node }) {
  const actors = use_topic("actors", {}, 250);
  const rows = actors.list().filter((row) => (row.node === node.name || row.node === node.id) && row.state !== "dead");
  return (
    <Rows of={actors}>
      {() => <Table label={t("node.actors")} rows={rows} columns={actor_columns().filter((column) => column.key !== "node")} id={(row) => row.id} bare order="display" height={420}
        open={(row) => go(["actors", row.id])} empty={<p class="quiet-line pad">{t("node.no_actors")}</p>} />}
    </Rows>
  );
}

function Drain({ node }: { node: Node }) {
  const [asking, set_asking] = useState(false);
  const { busy, run } = use_act();
  const draining = node.state === "draining";
  const drain = async () => {
    await run(async () => {
      await call("POST", `/api/v1/nodes/${encodeURIComponent(node.name)}:drain`, { undo: draining });
      return t(draining ? "drain.undone" : "drain.done", { node: node.name });
    });
    set_asking(false);
  };
  return (
    <>
      <button type="button" class="button" disabled={busy} onClick={() => (draining ? void drain() : set_asking(true))}>{t(draining ? "drain.undo" : "drain")}</button>
      {asking && (
        <Confirm title={t("drain.title", { node: node.name })} explain={t("drain.explain", { n: node.actors })} command={`volador drain ${node.name}`}
          act={t("drain")} busy={busy} on_act={() => void drain()} on_close={() => set_asking(false)} />
      )}
    </>
  );
}
