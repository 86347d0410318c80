// The form of one pool, project or environment in the settings of the job queue. Settings are saved as a whole, with their version.
import { useState } from "preact/hooks";
import { ApiError, call } from "../api";
import { t } from "../i18n";
import { Confirm } from "../ui/confirm";
import { Amount, Area, Text } from "../ui/fields";
import { Icon } from "../ui/icons";
import { Dialog, failure } from "../ui/parts";
import { toast } from "../ui/toast";
import { entry_of, field_of_setting, is_conflict, texts_of, with_entry, type List, type QueueReply, type QueueSettings, type Texts } from "./queue_settings";

interface Wrong { text: string; at: string; conflict: boolean }
const kRight: Wrong = { text: "", at: "", conflict: false };

const found_in = (settings: QueueSettings, list: List, name: string) => (settings[list] as { name: string }[]).find((one) => one.name === name);

// `name`: "" for a further one. `settings` are those of the time when the form was opened, so that changes by others are noticed.
export function QueueEntry({ list, name, settings, on_close, on_done }: { list: List; name: string; settings: QueueSettings; on_close: () => void; on_done: () => void }) {
  const [base, set_base] = useState(settings);
  const [texts, set_texts] = useState<Texts>(() => texts_of(list, found_in(settings, list, name), name));
  const [wrong, set_wrong] = useState<Wrong>(kRight);
  const [busy, set_busy] = useState(false);
  const [removing, set_removing] = useState(false);
  const listed = name !== "" && found_in(base, list, name) !== undefined;

  const send = async (changed: QueueSettings, done: string) => {
    set_busy(true);
    try {
      await call("POST", "/api/v1/job_queue", { settings: changed });
      toast(done);
      on_done();
      on_close();
    } catch (error) {
      const what = failure(error).what;
      set_removing(false);
      set_wrong({ text: what, at: field_of_setting(what), conflict: error instanceof ApiError && is_conflict(what) });
      set_busy(false);
    }
  };
  const save = (event: Event) => {
    event.preventDefault();
    const entry = entry_of(list, texts);
    if (!entry) return set_wrong({ text: t("queue.others.form"), at: "others", conflict: false });
    void send(with_entry(base, list, name, entry), t("queue.saved"));
  };
  const load_present = async () => {
    try {
      const present = (await call<QueueReply>("GET", "/api/v1/job_queue")).settings;
      set_base(present);
      set_texts(texts_of(list, found_in(present, list, name), name));
      set_wrong(kRight);
      on_done();
    } catch (error) {
      set_wrong({ text: failure(error).what, at: "", conflict: true });
    }
  };
  if (removing) {
    return <Confirm title={t("queue.remove.title", { name })} explain={t(`queue.remove.${list}`)} act={t("queue.remove")} danger busy={busy} on_act={() => void send(with_entry(base, list, name, null), t("queue.removed", { name }))} on_close={() => set_removing(false)} />;
  }
  const of = (key: string) => ({ value: texts[key] ?? "", error: wrong.at === key ? wrong.text : undefined, on_change: (value: string) => set_texts((before) => ({ ...before, [key]: value })) });
  const shown_at = wrong.at in texts;
  return (
    <Dialog title={name ? t("queue.edit.title", { name }) : t(`queue.add.${list}`)} on_close={on_close}>
      <form class="job-form" noValidate onSubmit={save}>
        {!name && <Text label={t("col.name")} wide {...of("name")} />}
        {list === "pools" && <Text label={t("queue.pool.projects")} wide {...of("projects")} hint={t("queue.all_projects")} />}
        {list === "projects" && (
          <>
            <Amount label={t("queue.weight")} step="any" {...of("weight")} />
            <Amount label={t("queue.urgent_jobs")} {...of("urgent_jobs")} />
            <Amount label={t("queue.limit", { resource: t("resource.cpus") })} step="any" hint={t("queue.no_limit")} {...of("cpus")} />
            <Amount label={t("queue.limit", { resource: t("resource.gpus") })} step="any" hint={t("queue.no_limit")} {...of("gpus")} />
            <Amount label={t("queue.limit.memory")} step="any" hint={t("queue.no_limit")} {...of("memory")} />
            <Text label={t("queue.limit.others")} hint="licence=2" {...of("others")} />
          </>
        )}
        {list === "environments" && <Text label={t("queue.source")} wide {...of("source")} hint="/opt/conda/envs/cuda12" />}
        <Area label={t("col.note")} wide {...of("note")} />
        {wrong.text && !shown_at && (
          <div class="form-error wide" role="alert">
            <Icon name="warning" />
            <span>{wrong.conflict ? t("queue.conflict") : wrong.text}</span>
            {wrong.conflict && <button type="button" class="button small" onClick={() => void load_present()}>{t("queue.load_present")}</button>}
          </div>
        )}
        <footer class="wide">
          {listed && <button type="button" class="button danger start" onClick={() => set_removing(true)}>{t("queue.remove")}</button>}
          <button type="button" class="button" onClick={on_close}>{t("cancel")}</button>
          <button type="submit" class="button primary" disabled={busy}>{t("queue.save")}</button>
        </footer>
      </form>
    </Dialog>
  );
}
