// Ends an actor when a person asks for it and says so once more.
import { useState } from "preact/hooks";
import { call, may } from "../api";
import { t } from "../i18n";
import type { Actor } from "../live/protocol";
import { actor_name } from "../ui/names";
import { Code, Dialog, failure } from "../ui/parts";
import { toast } from "../ui/toast";

export function Kill({ actor }: { actor: Actor }) {
  const [asking, set_asking] = useState(false);
  const [busy, set_busy] = useState(false);
  const [restart, set_restart] = useState(false);
  if (!may("operator") || actor.state === "dead") return null;
  const name = actor_name(actor);
  const run = async () => {
    set_busy(true);
    try {
      const { restarts } = await call<{ restarts: boolean }>("POST", `/api/v1/actors/${encodeURIComponent(actor.id)}:kill`, { restart });
      toast(t(restarts ? "actor.kill.restarts" : restart ? "actor.kill.for_good" : "actor.kill.done", { name }));
    } catch (error) {
      const { what, next } = failure(error);
      toast(`${what} ${next}`, "bad");
    }
    set_busy(false);
    set_asking(false);
  };
  return (
    <>
      <button type="button" class="button danger" onClick={() => set_asking(true)}>{t("actor.kill")}</button>
      {asking && (
        <Dialog title={t("actor.kill.title", { name })} on_close={() => set_asking(false)}>
          <p>{t("actor.kill.explain")}</p>
          <Code text={`volador kill ${actor.id.slice(0, 8)}${restart ? " --restart" : ""}`} />
          <label class="check"><input type="checkbox" checked={restart} onChange={(event) => set_restart(event.currentTarget.checked)} />{t("actor.kill.restart")}</label>
          <footer>
            <button type="button" class="button" onClick={() => set_asking(false)}>{t("cancel")}</button>
            <button type="button" class="button primary danger" disabled={busy} onClick={() => void run()}>{t("actor.kill")}</button>
          </footer>
        </Dialog>
      )}
    </>
  );
}
