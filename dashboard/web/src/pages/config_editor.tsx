// The text of a configuration: CodeMirror with completion of keys and values, and findings in their places.
import { autocompletion, completionKeymap, startCompletion, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, Transaction } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { language } from "../prefs";
import { span_of, type Finding } from "./config_findings";
import { offers_at, place_of } from "./config_keys";
import { n } from "./new_experiment_texts";

const kTheme = EditorView.theme({
  "&": { height: "100%", fontSize: "12px", color: "var(--text)", backgroundColor: "var(--panel)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent) !important" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "0", borderRadius: "8px", boxShadow: "var(--float)", overflow: "hidden", maxWidth: "min(420px, 90vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "240px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--chosen) !important", color: "var(--text) !important" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", fontFamily: "var(--font)" },
  ".cm-completionInfo": { padding: "8px 12px", maxWidth: "280px", overflow: "visible", fontFamily: "var(--font)", lineHeight: "1.5" },
  ".cm-diagnostic": { padding: "6px 12px", borderLeft: "3px solid var(--bad)", fontFamily: "var(--font)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warn)" },
});
const kColors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent-text)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--muted)" },
  { tag: [tags.labelName, tags.typeName, tags.keyword], color: "var(--calm)" },
]);

function complete(context: CompletionContext): CompletionResult | null {
  const text = context.state.doc.toString();
  const place = place_of(text, context.pos);
  if (!place || (!context.explicit && place.key === null && place.from === context.pos)) return null;
  const zh = language.value === "zh";
  const options = offers_at(text, place, zh).map((one): Completion => ({
    label: one.name, detail: one.detail || undefined, type: place.key === null ? "property" : "enum",
    apply: place.key === null ? (view, _, from, to) => {
      view.dispatch({ changes: { from, to, insert: one.name + ": " }, selection: { anchor: from + one.name.length + 2 }, userEvent: "input.complete" });
      startCompletion(view);
    } : undefined,
    info: one.about || one.fallback ? () => {
      const box = document.createElement("div");
      box.textContent = [one.about, one.fallback && n("default", { value: one.fallback })].filter(Boolean).join(" ");
      return box;
    } : undefined,
  }));
  return options.length ? { from: place.from, options, validFor: /^[\w.-]*$/ } : null;
}

// The part of the text that changes, so that the cursor stays where it is.
function change_of(before: string, after: string): { from: number; to: number; insert: string } {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) ++head;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) ++tail;
  return { from: head, to: before.length - tail, insert: after.slice(head, after.length - tail) };
}

const phrases = () => (language.value === "zh" ? EditorState.phrases.of({ Completions: n("completions"), "Control character": n("control") }) : []);

// `label`: accessible name of a text that is no configuration, for whose keys there are no completions.
export function ConfigEditor({ text, on_change, findings, go_to, label }: { text: string; on_change: (text: string) => void; findings: Finding[]; go_to: { offset: number } | null; label?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(on_change);
  latest.current = on_change;
  const told = useRef<string[]>([]);  // Texts of the editor that have not come back as `text` yet; typing is faster.
  const tell = (now: string) => {
    told.current.push(now);
    latest.current(now);
  };
  useEffect(() => {
    const host = box.current!;
    // In a shadow root CodeMirror's styles are style sheet objects, which the page's Content-Security-Policy permits.
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const editor = new EditorView({
      root, parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(), highlightActiveLineGutter(), highlightActiveLine(), history(), drawSelection(), indentOnInput(), bracketMatching(), indentUnit.of("  "), lintGutter(),
          ...(label ? [] : [autocompletion({ override: [complete], icons: false })]), yaml(), syntaxHighlighting(kColors), kTheme, phrases(),
          keymap.of([...(label ? [] : completionKeymap), ...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ "aria-label": label ?? n("text"), "aria-multiline": "true", tabindex: "0", spellcheck: "false" }),
          EditorView.updateListener.of((update) => { if (update.docChanged && !update.transactions.some((one) => one.annotation(Transaction.remote))) tell(update.state.doc.toString()); }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);
  useEffect(() => {
    const editor = view.current!;
    const before = editor.state.doc.toString();
    const own = told.current.lastIndexOf(text);
    told.current = told.current.slice(own + 1);
    if (own >= 0) return;
    if (before !== text) editor.dispatch({ changes: change_of(before, text), annotations: Transaction.remote.of(true) });
  }, [text]);
  useEffect(() => {
    const editor = view.current!;
    const now = editor.state.doc.toString();
    editor.dispatch(setDiagnostics(editor.state, findings.flatMap((one) => {
      const span = span_of(now, one);
      return span ? [{ from: span[0], to: span[1], severity: one.bad ? "error" as const : "warning" as const, message: one.message }] : [];
    })));
  }, [findings]);
  useEffect(() => {
    if (!go_to) return;
    const editor = view.current!;
    editor.dispatch({ selection: { anchor: Math.min(go_to.offset, editor.state.doc.length) }, scrollIntoView: true });
    editor.focus();
  }, [go_to]);
  // The page's single-letter shortcuts do not see into the shadow root.
  return <div class="config-editor" ref={box} onKeyDown={(event) => { if (!event.ctrlKey && !event.metaKey) event.stopPropagation(); }} />;
}
