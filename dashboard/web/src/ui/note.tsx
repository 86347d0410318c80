// Notes of models, versions and experiments: Markdown, and a field that edits it with a preview.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { use_loaded } from "./loaded";

// The part that shows Markdown is loaded with the first note; until then, and if it cannot be loaded, the note is plain text.
export function NoteText({ text }: { text: string }) {
  const part = use_loaded(text ? () => import("../pages/markdown") : null);
  return part ? <part.Markdown text={text} /> : <p class="note-text" tabIndex={0}>{text}</p>;
}

// `children`: the text area, which the preview takes the place of.
export function NoteField({ label, text, children }: { label: string; text: string; children: ComponentChildren }) {
  const [preview, set_preview] = useState(false);
  const tab = (on: boolean, name: string) => <button type="button" aria-pressed={preview === on} onClick={() => set_preview(on)}>{name}</button>;
  return (
    <div class="note-field">
      <div class="note-head">
        <span>{label} <small>Markdown</small></span>
        <div class="segments" role="group" aria-label={label}>{tab(false, t("notes.text"))}{tab(true, t("notes.preview"))}</div>
      </div>
      {!preview ? children : text.trim() ? <div class="note-shown"><NoteText text={text} /></div> : <p class="note-shown quiet-line">{t("notes.nothing")}</p>}
    </div>
  );
}
