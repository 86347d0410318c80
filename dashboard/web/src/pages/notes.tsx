// Tags, note and archive flag of an experiment, which the head stores.
import { useRef, useState } from "preact/hooks";
import { call, may } from "../api";
import { t } from "../i18n";
import type { Experiment } from "../live/protocol";
import { link } from "../router";
import { Icon } from "../ui/icons";
import { NoteField, NoteText } from "../ui/note";
import { Card, failure } from "../ui/parts";
import { toast } from "../ui/toast";
import type { Configured } from "./configured";

export interface Annotation {
  add_tags?: string[];
  remove_tags?: string[];
  note?: string;
  archived?: boolean;
}

export const annotate = (experiment: string, what: Annotation) => call("POST", `/api/v1/experiments/${encodeURIComponent(experiment)}:annotate`, what);

const say = (experiment: string, what: Annotation) => well(() => annotate(experiment, what));

async function well(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    const { what: text, next } = failure(error);
    toast(`${text} ${next}`, "bad");
    return false;
  }
}

export const TagList = ({ tags }: { tags?: string[] }) => (
  <span class="tags">{(tags ?? []).map((tag) => <i key={tag} class="tag">{tag}</i>)}</span>
);

const kNoteMax = 16384;

// A note, and what edits it if the user may. `save` throws the head's error.
export function Note({ text, writes, save, most = kNoteMax }: { text: string; writes: boolean; save: (text: string) => Promise<unknown>; most?: number }) {
  const [edited, set_edited] = useState<string | null>(null);  // Text of the editor; null: not editing.
  const field = useRef<HTMLTextAreaElement | null>(null);
  const keep = async () => {
    if (await well(() => save(edited ?? ""))) set_edited(null);
  };
  if (edited === null) {
    return (
      <>
        {text && <NoteText text={text} />}
        {writes && <button type="button" class="link" onClick={() => set_edited(text)}>{t(text ? "notes.edit" : "notes.write")}</button>}
      </>
    );
  }
  return (
    <div class="note-form">
      <NoteField label={t("notes.note")} text={edited}>
        <textarea ref={(element) => { if (element && element !== field.current) element.focus(); field.current = element; }} rows={5} maxLength={most} aria-label={t("notes.note")} value={edited} onInput={(event) => set_edited(event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void keep(); if (event.key === "Escape") set_edited(null); }} />
      </NoteField>
      <footer>
        <button type="button" class="button" onClick={() => set_edited(null)}>{t("cancel")}</button>
        <button type="button" class="button primary" onClick={() => void keep()}>{t("save")}</button>
      </footer>
    </div>
  );
}

// The note of an experiment of a configuration is its own `notes`, which `volador experiment edit` changes too; a note of its rows is shown while there is none, and the next edit takes its place.
export function NoteOf({ experiment, configured, again }: { experiment: Experiment; configured: Configured | null; again: () => void }) {
  const save = async (text: string) => {
    if (!configured) return annotate(experiment.name, { note: text });
    await call("POST", `/api/v1/determined/experiments/${configured.id}:edit`, { notes: text });
    if (experiment.note && may("operator")) await annotate(experiment.name, { note: "" });
    return again();
  };
  return <Note key={experiment.name} text={configured?.notes || experiment.note || ""} writes={may(configured ? "user" : "operator")} save={save} most={configured ? 4 * kNoteMax : kNoteMax} />;
}

export function NotesCard({ experiment, configured, again }: { experiment: Experiment; configured: Configured | null; again: () => void }) {
  const operates = may("operator");
  const tags = experiment.tags ?? [];
  const [tag, set_tag] = useState("");
  if (!may(configured ? "user" : "operator") && !tags.length && !experiment.note && !configured?.notes) return null;
  const add = async (event: Event) => {
    event.preventDefault();
    const wanted = tag.split(/[\s,]+/).filter(Boolean);
    if (wanted.length && (await say(experiment.name, { add_tags: wanted }))) set_tag("");
  };
  return (
    <Card title={t("notes.title")}>
      <div class="tags editable">
        {tags.map((one) => (
          <span key={one} class="tag">
            <a href={link(["experiments"], { q: `tags:${one}` })}>{one}</a>
            {operates && <button type="button" onClick={() => void say(experiment.name, { remove_tags: [one] })} aria-label={t("notes.untag", { tag: one })} title={t("notes.untag", { tag: one })}><Icon name="close" /></button>}
          </span>
        ))}
        {operates && (
          <form onSubmit={(event) => void add(event)}>
            <input value={tag} maxLength={64} placeholder={t("notes.add_tag")} aria-label={t("notes.add_tag")} spellcheck={false} onInput={(event) => set_tag(event.currentTarget.value)} />
          </form>
        )}
      </div>
      <NoteOf experiment={experiment} configured={configured} again={again} />
    </Card>
  );
}

export function ArchiveButton({ experiment }: { experiment: Experiment }) {
  if (!may("operator")) return null;
  const archived = Boolean(experiment.archived);
  const turn = async () => {
    if (await say(experiment.name, { archived: !archived })) toast(t(archived ? "archive.undone" : "archive.done", { name: experiment.name }));
  };
  return <button type="button" class="button" onClick={() => void turn()}>{t(archived ? "archive.undo" : "archive")}</button>;
}
