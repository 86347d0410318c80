// Fields of forms: a label, an input, and the head's error about it below.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  label: string;
  error?: string;
  wide?: boolean;
}
type Described = { "aria-invalid"?: "true"; "aria-describedby"?: string };

function Field({ label, error, wide, children }: FieldProps & { children: (described: Described) => ComponentChildren }) {
  const id = useId();
  return (
    <div class={`field${wide ? " wide" : ""}${error ? " wrong" : ""}`}>
      <label><span>{label}</span>{children(error ? { "aria-invalid": "true", "aria-describedby": id } : {})}</label>
      {error && <small class="field-error" id={id} role="alert">{error}</small>}
    </div>
  );
}

interface InputProps extends FieldProps {
  value: string;
  on_change: (value: string) => void;
  hint?: string;
}

// `choices`: values that the browser offers; others are allowed.
export function Text({ value, on_change, hint, choices, disabled, ...field }: InputProps & { choices?: string[]; disabled?: boolean }) {
  const list = useId();
  return (
    <>
      <Field {...field}>{(described) => <input class="text-input" {...described} value={value} placeholder={hint} spellcheck={false} autocomplete="off" disabled={disabled} list={choices ? list : undefined} onInput={(event) => on_change(event.currentTarget.value)} />}</Field>
      {choices && <datalist id={list}>{choices.map((one) => <option key={one} value={one} />)}</datalist>}
    </>
  );
}

export const Area = ({ value, on_change, hint, rows = 2, focus, ...field }: InputProps & { rows?: number; focus?: boolean }) => (
  <Field {...field}>{(described) => <textarea class="text-input mono" {...described} rows={rows} autofocus={focus} spellcheck={false} value={value} placeholder={hint} onInput={(event) => on_change(event.currentTarget.value)} />}</Field>
);

export const Amount = ({ value, on_change, hint, least = 0, step = "1", ...field }: InputProps & { least?: number; step?: string }) => (
  <Field {...field}>{(described) => <input class="text-input" type="number" {...described} min={least} step={step} value={value} placeholder={hint} onInput={(event) => on_change(event.currentTarget.value)} />}</Field>
);

export const Choice = ({ value, on_change, options, ...field }: FieldProps & { value: string; on_change: (value: string) => void; options: [string, string][] }) => (
  <Field {...field}>{(described) => <select class="text-input" {...described} value={value} onChange={(event) => on_change(event.currentTarget.value)}>{options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}</select>}</Field>
);
