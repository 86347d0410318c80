// Button that kills an actor after a confirmation.
import { useState } from "preact/hooks";
import { call, may } from "../api";
import { t } from "../i18n";
import type { Actor } from "../live/protocol";
import { Confirm, use_act } from "../ui/confirm";
import { actor_name } from "../ui/names";

export function Kill({ actor }: { actor: Actor }) {
  const [asking, set_asking] = useState(false);
  const [restart, set_restart] = useState(false);
  const { busy, run } = use_act();
  if (!may("operator") || actor.state === "dead") return null;
  const name = actor_name(actor);
  const kill = async () => {
    await run(async () => {
      const { restarts } = await call<{ restarts: boolean }>("POST", `/api/v1/actors/${encodeURIComponent(actor.id)}:kill`, { restart });
      return t(restarts ? "actor.kill.restarts" : restart ? "actor.kill.for_good" : "actor.kill.done", { name });
    });
    set_asking(false);
  };
  return (
    <>
      <button type="button" class="button danger" onClick={() => set_asking(true)}>{t("actor.kill")}</button>
      {asking && (
        <Confirm title={t("actor.kill.title", { name })} explain={t("actor.kill.explain")} command={`volador kill ${actor.id.slice(0, 8)}${restart ? " --restart" : ""}`}
          act={t("actor.kill")} danger busy={busy} on_act={() => void kill()} on_close={() => set_asking(false)}>
          <label class="check"><input type="checkbox" checked={restart} onChange={(event) => set_restart(event.currentTarget.checked)} />{t("actor.kill.restart")}</label>
        </Confirm>
      )}
    </>
  );
}
