// Tags, note and archive flag of an experiment, which the head stores.
import { useEffect, useRef, useState } from "preact/hooks";
import { call, may } from "../api";
import { t } from "../i18n";
import type { Experiment } from "../live/protocol";
import { link } from "../router";
import { Icon } from "../ui/icons";
import { Card, failure } from "../ui/parts";
import { toast } from "../ui/toast";

export interface Annotation {
  add_tags?: string[];
  remove_tags?: string[];
  note?: string;
  archived?: boolean;
}

export const annotate = (experiment: string, what: Annotation) => call("POST", `/api/v1/experiments/${encodeURIComponent(experiment)}:annotate`, what);

async function say(experiment: string, what: Annotation): Promise<boolean> {
  try {
    await annotate(experiment, what);
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

export function NotesCard({ experiment }: { experiment: Experiment }) {
  const operates = may("operator");
  const tags = experiment.tags ?? [];
  const [tag, set_tag] = useState("");
  const [note, set_note] = useState<string | null>(null);  // Text of the editor; null: not editing.
  const field = useRef<HTMLTextAreaElement | null>(null);
  useEffect(() => set_note(null), [experiment.name]);
  if (!operates && !tags.length && !experiment.note) return null;
  const add = async (event: Event) => {
    event.preventDefault();
    const wanted = tag.split(/[\s,]+/).filter(Boolean);
    if (wanted.length && (await say(experiment.name, { add_tags: wanted }))) set_tag("");
  };
  const save = async () => {
    if (await say(experiment.name, { note: note ?? "" })) set_note(null);
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
      {note === null ? (
        <>
          {experiment.note && <p class="note-text">{experiment.note}</p>}
          {operates && <button type="button" class="link" onClick={() => set_note(experiment.note ?? "")}>{t(experiment.note ? "notes.edit" : "notes.write")}</button>}
        </>
      ) : (
        <div class="note-form">
          <textarea ref={(element) => { if (element && element !== field.current) element.focus(); field.current = element; }} rows={5} maxLength={16384} aria-label={t("notes.note")} value={note} onInput={(event) => set_note(event.currentTarget.value)}
            onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void save(); if (event.key === "Escape") set_note(null); }} />
          <footer>
            <button type="button" class="button" onClick={() => set_note(null)}>{t("cancel")}</button>
            <button type="button" class="button primary" onClick={() => void save()}>{t("save")}</button>
          </footer>
        </div>
      )}
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
