// Overview of the cluster, warnings first.
import { reason_of, t, word } from "../i18n";
import type { Actor, Cluster, Experiment, Node, Series, Waiting } from "../live/protocol";
import { head_now, use_tick, use_topic } from "../live/use";
import { link } from "../router";
import { LineChart } from "../charts/line_chart";
import type { Line } from "../charts/lines";
import { group_color } from "../charts/colors";
import { Icon } from "../ui/icons";
import { Card, count, Empty, Head, Loading, Meter, amount, num, resource_name, resources_text, share, span, State, StateBar } from "../ui/parts";
import { EventLine, gathered } from "./events";
import { workers_shown } from "./training";
import { is_training } from "./training_rows";
import { ended_count, left_ms } from "./trials";
import { request_name } from "./queue";

export function Overview() {
  use_tick(5000);
  const cluster = use_topic("cluster").list()[0];
  const nodes = use_topic("nodes", {}, 500).list();
  const experiments = use_topic("experiments", {}, 250);
  const queue = use_topic("queue", {}, 500).list();
  const events = use_topic("events", {}, 250).list();
  const series = use_topic("series", {}, 1000).list();
  if (!cluster) return <><Head title={t("nav.overview")} /><Loading /></>;
  return (
    <>
      <Head title={cluster.name || t("nav.overview")}>
        <p class="sub">{t("overview.sub", { version: cluster.version, address: cluster.address, up: span(head_now() - cluster.started_ms) })}</p>
      </Head>
      <div class="page-body">
        <Warnings nodes={nodes} experiments={experiments.list()} queue={queue} />
        <Tiles cluster={cluster} nodes={nodes} waiting={queue.length} />
        <div class="columns">
          <div class="stack">
            <Card title={t("nav.experiments")} action={<a class="more" href={link(["experiments"])}>{t("more.all")}</a>}>
              <ExperimentList rows={experiments.list()} loading={experiments.phase.value === "loading"} />
            </Card>
            <Card title={t("overview.use")}>
              <UseChart series={series} nodes={nodes} cluster={cluster} />
            </Card>
            <GpuChart series={series} nodes={nodes} />
          </div>
          <div class="stack side">
            <Card title={t("overview.events")} action={<a class="more" href={link(["events"])}>{t("more.all")}</a>}>
              {events.length === 0 ? <p class="quiet-line">{t("events.none")}</p> : (
                <ul class="event-list">{gathered(events, 10).map(({ event, times }) => <EventLine key={event.id} event={event} times={times} />)}</ul>
              )}
            </Card>
            {queue.length > 0 && (
              <Card title={t("nav.queue")} action={<a class="more" href={link(["queue"])}>{t("more.all")}</a>}>
                <ul class="plain-list">
                  {queue.slice(0, 5).map((row: Waiting) => (
                    <li key={row.id}>
                      <a href={link(["queue"], { id: row.id })}><b>{row.display}</b> <small>{resources_text(row.resources)}</small></a>
                      <p class="quiet-line">{reason_of(row)}</p>
                    </li>
                  ))}
                </ul>
              </Card>
            )}
          </div>
        </div>
      </div>
    </>
  );
}

function Warnings({ nodes, experiments, queue }: { nodes: Node[]; experiments: Experiment[]; queue: Waiting[] }) {
  const found: { key: string; tone: string; text: string; href: string }[] = [];
  for (const node of nodes) {
    if (node.state === "suspect" || node.state === "dead") {
      found.push({ key: "n" + node.id, tone: node.state === "dead" ? "bad" : "warn", text: t(node.state === "dead" ? "warn.dead" : "warn.suspect", { node: node.name, ago: span(head_now() - node.last_heard_ms) }), href: link(["nodes", node.name]) });
    }
  }
  for (const node of nodes) {
    if (node.problems?.length && node.state !== "dead") found.push({ key: "p" + node.id, tone: "warn", text: t("warn.unhealthy", { node: node.name, what: node.problems.map(reason_of).join("; ") }), href: link(["nodes", node.name]) });
  }
  for (const one of experiments) {
    const failed = one.trials_by_status.failed ?? 0;
    const training = is_training(one);
    if (failed > 0 && one.state === "running") found.push({ key: "e" + one.id, tone: "warn", text: t(training ? "warn.ranks" : "warn.failed", { n: failed, experiment: one.name }), href: link(["experiments", one.name], training ? {} : { tab: "trials", q: "status:failed" }) });
  }
  const stuck = queue.filter((row) => head_now() - row.since_ms > 60_000).sort((a, b) => a.since_ms - b.since_ms);
  if (stuck.length) found.push({ key: "q", tone: "warn", text: t("warn.waiting", { n: stuck.length, first: request_name(stuck[0]), reason: reason_of(stuck[0]) }), href: link(["queue"]) });
  if (!found.length) return null;
  return (
    <ul class="warnings" aria-label={t("overview.warnings")}>
      {found.slice(0, 6).map((one) => (
        <li key={one.key} class={`tone-${one.tone}`}>
          <a href={one.href}><Icon name={one.tone === "bad" ? "bad" : "warning"} /><span>{one.text}</span><Icon name="next" /></a>
        </li>
      ))}
    </ul>
  );
}

function Tiles({ cluster, nodes, waiting }: { cluster: Cluster; nodes: Node[]; waiting: number }) {
  const actors = Object.entries(cluster.actors_by_state ?? {}) as [Actor["state"], number][];
  const alive = actors.find(([state]) => state === "alive")?.[1] ?? 0;
  const shown = ["cpus", "memory", "gpus", ...Object.keys(cluster.total ?? {}).filter((name) => !["cpus", "memory", "gpus"].includes(name))].filter((name) => cluster.total?.[name] > 0);
  return (
    <div class="tiles">
      <Tile href={link(["nodes"])} name={t("nav.nodes")} value={count(cluster.nodes_alive)} of={nodes.length > cluster.nodes_alive ? count(nodes.length) : undefined}
        note={nodes.length > cluster.nodes_alive ? t("tile.not_alive", { n: nodes.length - cluster.nodes_alive }) : t("tile.all_alive")} />
      {shown.slice(0, 4).map((name) => (
        <Tile key={name} href={link(["nodes"])} name={resource_name(name)} value={amount(name, cluster.used?.[name] ?? 0)} of={amount(name, cluster.total[name])}
          title={(cluster.used?.[name] ?? 0) > cluster.total[name] ? t("tile.lent") : undefined} note={t("tile.reserved", { share: share((cluster.used?.[name] ?? 0) / cluster.total[name]) })} meter={[cluster.used?.[name] ?? 0, cluster.total[name]]} />
      ))}
      <Tile href={link(["actors"])} name={t("nav.actors")} value={count(alive)} note={actors.filter(([state]) => state !== "alive" && state !== "dead").map(([state, n]) => `${count(n)} ${word(state)}`).join(", ") || t("tile.running")} />
      <Tile href={link(["queue"])} name={t("nav.queue")} value={count(waiting)} note={waiting ? t("tile.waiting") : t("tile.nothing_waits")} />
    </div>
  );
}

const Tile = ({ href, name, value, of, note, meter, title }: { href: string; name: string; value: string; of?: string; note: string; meter?: [number, number]; title?: string }) => (
  <a class="tile" href={href} title={title}>
    <span class="tile-name">{name}</span>
    <span class="tile-value"><b>{value}</b>{of && <small> / {of}</small>}</span>
    {meter && <Meter part={meter[0]} of={meter[1]} label={name} />}
    <span class="tile-note">{note}</span>
  </a>
);

function ExperimentList({ rows, loading }: { rows: Experiment[]; loading: boolean }) {
  if (loading) return <Loading />;
  if (!rows.length) return <Empty icon="experiments" title={t("experiments.none")} code="build/bin/tune_digits">{t("experiments.none.next")}</Empty>;
  const order = [...rows].sort((a, b) => Number(b.state === "running") - Number(a.state === "running") || (b.updated_ms ?? 0) - (a.updated_ms ?? 0));
  return (
    <ul class="experiment-list">
      {order.slice(0, 6).map((one) => {
        const left = left_ms(one, head_now());
        const done = ended_count(one);
        return (
          <li key={one.id}>
            <a href={link(["experiments", one.name])}>
              <span class="row">
                <b class="name">{one.name}</b>
                <State of={one.state} quiet />
                <span class="best">{one.best ? <>{one.metric} <b>{num(one.best.value)}</b></> : t("experiment.no_best")}</span>
              </span>
              {!is_training(one) && <StateBar counts={one.trials_by_status} total={one.trials_total} />}
              <span class="row small">
                <span>{is_training(one) ? [t("train.run"), workers_shown(one)].filter(Boolean).join(" · ") : t("experiment.done", { done: count(done), total: count(one.trials_total) })}</span>
                <span class="end">{left !== null ? t("experiment.left", { time: span(left.point) }) : one.started_ms ? t("experiment.took", { time: span((one.state === "running" ? head_now() : one.updated_ms ?? head_now()) - one.started_ms) }) : ""}</span>
              </span>
            </a>
          </li>
        );
      })}
    </ul>
  );
}

const rounded = (x: number[]) => x.map((ms) => Math.round(ms / 1000) * 1000);

function UseChart({ series, nodes, cluster }: { series: Series[]; nodes: Node[]; cluster: Cluster }) {
  const cpu = series.filter((one) => one.id.endsWith("/cpu_cores_used") || one.metric === "cpu_cores_used");
  if (!cpu.length) return <p class="quiet-line pad">{t("chart.soon")}</p>;
  const total = cluster.total?.cpus ?? 0;
  const known = new Map(nodes.map((node, i) => [node.name, i]));
  const lines: Line[] = cpu.length <= 12
    ? cpu.map((one, i) => ({ id: one.id, label: node_of(one), x: rounded(one.x), y: one.y, color: group_color(known.get(node_of(one)) ?? i) }))
    : [{ id: "sum", label: t("overview.all_nodes"), color: group_color(0), ...sum_of(cpu) }];
  return <LineChart label={t("overview.use")} lines={lines} height={190} named time from_zero top={Math.max(1, ...(cpu.length <= 12 ? nodes.map((node) => node.total?.cpus ?? 0) : [total]))} note={t("overview.use.note")} />;
}

// Mean over the GPUs of each node.
function GpuChart({ series, nodes }: { series: Series[]; nodes: Node[] }) {
  const by_node = new Map<string, Series[]>();
  for (const one of series) if (/gpu\d+_utilization_ratio$/.test(one.metric || one.id)) by_node.set(node_of(one), [...(by_node.get(node_of(one)) ?? []), one]);
  if (!by_node.size) return null;
  const known = new Map(nodes.map((node, i) => [node.name, i]));
  const lines = [...by_node].slice(0, 12).map(([node, all], i): Line => {
    const { x, y } = sum_of(all);
    return { id: node, label: node, x, y: y.map((value) => value / all.length), color: group_color(known.get(node) ?? i) };
  });
  return <Card title={t("node.gpu_chart")}><LineChart label={t("node.gpu_chart")} lines={lines} height={150} named time from_zero top={1} show={share} note={t("overview.use.note")} /></Card>;
}

const node_of = (one: Series) => one.name || one.id.split("/")[1] || one.id;

function sum_of(all: Series[]): { x: number[]; y: number[] } {
  const sums = new Map<number, number>();
  for (const one of all) rounded(one.x).forEach((x, i) => sums.set(x, (sums.get(x) ?? 0) + (one.y[i] ?? 0)));
  const x = [...sums.keys()].sort((a, b) => a - b);
  return { x, y: x.map((at) => sums.get(at)!) };
}
