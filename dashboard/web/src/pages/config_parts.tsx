// Parts of the pages on which a configuration or resources are written.
import { useRef, useState } from "preact/hooks";
import { Text } from "../ui/fields";
import { Icon } from "../ui/icons";
import type { Finding } from "./config_findings";
import { n } from "./new_experiment_texts";

export const random_id = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// `file`: name of the text in the editor; findings in it lead to their places.
export function FindingList({ findings, file, show }: { findings: Finding[]; file: string; show: (one: Finding) => void }) {
  if (!findings.length) return null;
  return (
    <ul class="warnings findings">
      {findings.map((one, i) => {
        const place = one.line > 0 ? (one.file === file ? n("at", { line: one.line, column: one.column }) : n("in", { file: one.file, line: one.line, column: one.column })) : "";
        return (
          <li key={i} class={one.bad ? "tone-bad" : ""}>
            <div><Icon name={one.bad ? "bad" : "warning"} /><span>{one.message}</span>{place && (one.file === file ? <button type="button" class="link" onClick={() => show(one)}>{place}</button> : <small>{place}</small>)}</div>
          </li>
        );
      })}
    </ul>
  );
}

export function FileButton({ text, on_text }: { text: string; on_text: (text: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class="button small" onClick={() => input.current?.click()}>{text}</button>
      <input ref={input} type="file" hidden accept=".yaml,.yml,.json" onChange={(event) => {
        const file = event.currentTarget.files?.[0];
        event.currentTarget.value = "";
        if (file) void file.text().then(on_text);
      }} />
    </>
  );
}

// A field whose text is taken when it loses the focus, because what stands in the text looks different.
export function LaterText({ value, on_change, wide, ...field }: Parameters<typeof Text>[0]) {
  const [own, set_own] = useState<string | null>(null);
  return <div class={wide ? "wide" : undefined} onFocusOut={() => { if (own !== null && own !== value) on_change(own); set_own(null); }}><Text {...field} value={own ?? value} on_change={set_own} /></div>;
}

// The choice between form and text where there is no room for both.
export function Sides({ side, set }: { side: "form" | "text"; set: (side: "form" | "text") => void }) {
  return (
    <div class="segments sides" role="group" aria-label={n("view")}>
      {(["form", "text"] as const).map((key) => <button key={key} type="button" aria-pressed={side === key} onClick={() => set(key)}>{key === "form" ? n("form") : "YAML"}</button>)}
    </div>
  );
}
