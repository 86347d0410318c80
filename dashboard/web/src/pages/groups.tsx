// The list of placement groups, and the page of a group.
import { reason_of, t, word } from "../i18n";
import type { Actor, Bundle, Group } from "../live/protocol";
import { use_topic } from "../live/use";
import { go, link } from "../router";
import { Card, Empty, Facts, Head, Missing, RowLink, Rows, State, TokenLink, count, resources_text } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { actor_columns } from "./actors";
import { Explained } from "./explained";
import { actor_name } from "../ui/names";

const shown_name = (row: Group) => row.name || row.id.slice(0, 8);
const nodes_of = (row: Group) => [...new Set(row.bundles.map((one) => one.node).filter(Boolean))];

export function Groups() {
  const groups = use_topic("groups", {}, 200);
  const columns: Column<Group>[] = [
    { key: "name", title: t("col.name"), width: 150, small: true, look: shown_name, cell: (row) => <RowLink path={["groups", row.id]}>{shown_name(row)}</RowLink> },
    { key: "state", card: "side", title: t("col.state"), width: 118, small: true, look: (row) => row.state, cell: (row) => <State of={row.state} /> },
    { key: "strategy", title: t("col.strategy"), width: 104, look: (row) => row.strategy, cell: (row) => <span title={t(`strategy.${row.strategy}` as "strategy.pack")}>{word(row.strategy)}</span> },
    { key: "bundles", title: t("col.bundles"), width: 84, right: true, small: true, look: (row) => row.bundles_total, cell: (row) => <span class="num">{row.bundles_placed} / {row.bundles_total}</span> },
    { key: "resources", title: t("col.resources"), width: 170, look: (row) => resources_text(row.total) },
    { key: "actors", title: t("nav.actors"), width: 90, right: true, look: (row) => row.actors, cell: (row) => <span class="num">{count(row.actors)}</span> },
    { key: "nodes", title: t("nav.nodes"), width: 150, look: (row) => nodes_of(row).join(", "), cell: (row) => <span title={nodes_of(row).join(", ")}>{nodes_of(row).join(", ") || "–"}</span> },
    { key: "reason", card: "wide", title: t("col.why"), width: 300, look: (row) => reason_of(row), cell: (row) => <span class="soft" title={reason_of(row)}>{reason_of(row)}</span> },
  ];
  return (
    <>
      <Head title={t("nav.groups")} />
      <div class="page-body fill">
        <Rows of={groups}>
          {(rows) => (
            <Table label={t("nav.groups")} rows={rows} columns={columns} id={(row) => row.id} order="name" open={(row) => go(["groups", row.id])}
              empty={<Empty icon="groups" title={t("groups.none")} code="auto group = volador::placement_group({{.cpus = 1}, {.cpus = 1}});">{t("groups.none.next")}</Empty>} />
          )}
        </Rows>
      </div>
    </>
  );
}

export function GroupPage({ id }: { id: string }) {
  const groups = use_topic("groups", {}, 200);
  const actors = use_topic("actors", {}, 250);
  const group = groups.get(id);
  const trail = [{ text: t("nav.groups"), path: ["groups"] }];
  if (!group) {
    return <Missing of={groups} trail={trail} title={id.slice(0, 8)} what={t("group.unknown", { id })} next={t("group.unknown.next")} />;
  }
  const inside = actors.list().filter((row) => row.group === group.id && row.state !== "dead");
  return (
    <>
      <Head trail={trail} title={shown_name(group)} state={group.state} />
      <div class="page-body">
        {group.reason && <p class={`reason tone-${group.state === "removed" ? "calm" : "warn"}`}>{reason_of(group)}</p>}
        <div class="columns">
          <div class="stack">
            <Card title={t("group.bundles")}><Bundles group={group} actors={inside} /></Card>
            <Card title={t("group.actors")}>
              <Rows of={actors}>
                {() => <Table label={t("group.actors")} rows={inside} columns={actors_in_group()} id={(row) => row.id} prefix="a-" bare order="bundle" height={420} open={(row) => go(["actors", row.id])}
                  empty={<p class="quiet-line pad">{t("group.no_actors")}</p>} />}
              </Rows>
            </Card>
          </div>
          <div class="stack side">
            <Card title={t("actor.explain")}><Explained id={group.id} version={JSON.stringify([group.state, group.reason, group.bundles_placed, group.actors])} known={group.reason} /></Card>
            <Card title={t("group.about")}>
              <Facts of={[
                ["col.strategy", <span>{word(group.strategy)} <small class="soft">{t(`strategy.${group.strategy}` as "strategy.pack")}</small></span>],
                ["col.resources", resources_text(group.total)], ["group.priority", group.priority || ""],
                ["col.driver", group.driver], ["col.owner", group.owner && <TokenLink id={group.owner} />], ["actor.detached", group.detached && t("yes")], ["col.id", <code>{group.id}</code>],
              ]} />
            </Card>
          </div>
        </div>
      </div>
    </>
  );
}

const actors_in_group = (): Column<Actor>[] => [
  { key: "bundle", title: t("col.bundle"), width: 96, right: true, small: true, look: (row) => row.bundle, cell: (row) => <span class="num">{(row.bundle ?? -1) < 0 ? "–" : row.bundle}</span> },
  ...actor_columns().filter((column) => !["pid", "restarts"].includes(column.key)),
];

function Bundles({ group, actors }: { group: Group; actors: Actor[] }) {
  const names = (bundle: Bundle) => actors.filter((row) => row.bundle === bundle.index).map((row) => actor_name(row)).join(", ");
  const columns: Column<Bundle>[] = [
    { key: "index", card: "title", title: t("col.bundle"), width: 96, right: true, small: true, look: (row) => row.index, cell: (row) => <span class="num">{row.index}</span> },
    { key: "node", title: t("col.node"), width: 120, small: true, look: (row) => row.node, cell: (row) => (row.node ? <a href={link(["nodes", row.node])}>{row.node}</a> : <span class="soft">{t("bundle.no_place")}</span>) },
    { key: "total", title: t("col.holds"), width: 150, small: true, look: (row) => resources_text(row.total) },
    { key: "used", title: t("col.in_use"), width: 130, look: (row) => resources_text(row.used), cell: (row) => resources_text(row.used) || <span class="soft">–</span> },
    { key: "gpus", title: t("actor.gpus"), width: 116, look: (row) => row.gpus.join(", "), cell: (row) => <span class="num">{row.gpus.join(", ") || "–"}</span> },
    { key: "actors", title: t("nav.actors"), width: 200, look: names, cell: (row) => <span title={names(row)}>{names(row) || <span class="soft">{row.actors || "–"}</span>}</span> },
  ];
  return <Table label={t("group.bundles")} rows={group.bundles} columns={columns} id={(row) => String(row.index)} prefix="b-" bare order="index" height={420} empty={<p class="quiet-line pad">{t("bundle.no_place")}</p>} />;
}
