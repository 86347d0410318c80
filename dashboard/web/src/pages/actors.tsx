// The list of actors, and the page of an actor.
import { reason_of, t } from "../i18n";
import { says } from "../i18n/reason";
import type { Actor } from "../live/protocol";
import { use_topic } from "../live/use";
import { go, link } from "../router";
import { Card, Empty, Facts, Head, Missing, RowLink, Rows, State, Toggle, TokenLink, count, resources_text } from "../ui/parts";
import { query, set_query } from "../router";
import { actor_name, short_class } from "../ui/names";
import { Table, type Column } from "../ui/table";
import { Explained } from "./explained";
import { Kill } from "./kill";
import { LogBox } from "./logs";
import { ActorMetrics } from "./actor_metrics";
import { StackCard } from "./stack";
import { UsageCharts } from "./usage";

const short = (id: string) => id.slice(0, 8);
const is_meant = ({ why }: Actor) => says(why, "ended.killed") || says(why, "ended.owner_gone");  // Expected ends, which are no errors.

export const actor_columns = (): Column<Actor>[] => [
  { key: "display", title: t("col.actor"), width: 190, small: true, look: actor_name, cell: (row) => <RowLink path={["actors", row.id]}>{actor_name(row)}</RowLink> },
  { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: (row) => row.state, cell: (row) => <State of={row.state} actor /> },
  { key: "class", title: t("col.class"), width: 150, look: (row) => row.class_name, cell: (row) => <span class="soft" title={row.class_name}>{short_class(row.class_name)}</span> },
  { key: "node", title: t("col.node"), width: 110, small: true, look: (row) => row.node, cell: (row) => (row.node ? <a href={link(["nodes", row.node])}>{row.node}</a> : <span class="soft">–</span>) },
  { key: "resources", title: t("col.resources"), width: 150, look: (row) => resources_text(row.resources) },
  { key: "restarts", title: t("col.restarts"), width: 84, right: true, look: (row) => row.restarts, cell: (row) => <span class="num">{count(row.restarts)}</span> },
  { key: "pid", title: t("col.pid"), width: 80, right: true, look: (row) => row.pid, cell: (row) => <span class="num">{row.pid || "–"}</span> },
  { key: "reason", card: "wide", title: t("col.reason"), width: 260, look: (row) => reason_of(row), cell: (row) => <span class="soft" title={reason_of(row)}>{reason_of(row)}</span> },
];

export function Actors() {
  const actors = use_topic("actors", {}, 200);
  const dead = query("dead") === "1";
  return (
    <>
      <Head title={t("nav.actors")} />
      <div class="page-body fill">
        <Rows of={actors}>
          {(rows) => (
            <Table label={t("nav.actors")} rows={dead ? rows : rows.filter((row) => row.state !== "dead")} columns={actor_columns()} id={(row) => row.id} open={(row) => go(["actors", row.id])}
              tools={<Toggle label={t("actors.dead")} on={dead} on_change={(on) => set_query({ dead: on ? "1" : null })} />}
              empty={<Empty icon="actors" title={t("actors.none")} code="auto counter = volador::actor<Counter>(10).name(&quot;hits&quot;).spawn();">{t("actors.none.next")}{rows.length > 0 && <> <button type="button" class="link" onClick={() => set_query({ dead: "1" })}>{t("actors.show_dead", { n: rows.length })}</button></>}</Empty>} />
          )}
        </Rows>
      </div>
    </>
  );
}

export function ActorPage({ id }: { id: string }) {
  const actors = use_topic("actors", {}, 200);
  const actor = actors.get(id);
  const trail = [{ text: t("nav.actors"), path: ["actors"] }];
  if (!actor) {
    return <Missing of={actors} trail={trail} title={short(id)} what={t("actor.unknown", { id })} next={t("actor.unknown.next")} />;
  }
  return (
    <>
      <Head trail={trail} title={actor_name(actor)} state={actor.state} of_actor actions={
        <>
          {actor.state === "alive" && <a class="button" href={`/api/v1/timeline?id=${encodeURIComponent(actor.id)}`} download={`timeline-${short(actor.id)}.json`} title={t("actor.timeline.what")}>{t("actor.timeline")}</a>}
          <a class="button" href={link(["logs"], { id: actor.id })}>{t("nav.logs")}</a>
          <Kill actor={actor} />
        </>
      } />
      <div class="page-body">
        {actor.reason && <p class={`reason tone-${is_meant(actor) ? "calm" : actor.state === "dead" ? "bad" : "warn"}`}>{reason_of(actor)}</p>}
        <div class="columns">
          <div class="stack">
            <Card title={t("actor.explain")}><Explained id={actor.id} version={actor.state + actor.epoch + actor.reason} known={actor.reason} /></Card>
            <UsageCharts of={{ actor: actor.id }} ended={actor.state === "dead"} />
            <ActorMetrics id={actor.id} />
            {actor.state === "alive" && <StackCard id={actor.id} />}
            <Card title={t("nav.logs")} action={<a class="more" href={link(["logs"], { id: actor.id })}>{t("more.open")}</a>}><LogBox filter={{ id: actor.id }} height={360} ended={actor.state === "dead"} /></Card>
          </div>
          <div class="stack side">
            <Card title={t("actor.about")}>
              <Facts of={[
                ["col.name", actor.name], ["col.class", <code class="wrap">{actor.class_name}</code>],
                ["col.node", actor.node && <a href={link(["nodes", actor.node])}>{actor.node}</a>],
                ["col.pid", actor.pid || ""], ["col.resources", resources_text(actor.resources)],
                ["actor.gpus", (actor.gpus ?? []).join(", ")], ["col.restarts", count(actor.restarts)], ["actor.epoch", String(actor.epoch)],
                ["col.driver", actor.driver_id ? <a class="wrap" href={link(["drivers", actor.driver_id])}>{actor.driver}</a> : actor.driver], ["col.owner", actor.owner && <TokenLink id={actor.owner} />], ["actor.detached", actor.detached && t("yes")], ["col.id", <code>{actor.id}</code>],
              ]} />
            </Card>
          </div>
        </div>
      </div>
    </>
  );
}
