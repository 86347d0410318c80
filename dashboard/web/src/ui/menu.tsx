// A button that opens a list of actions.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icons";

export interface Choice {
  key: string;
  text: string;
  note?: string;             // Shown after the text: a size, or why the choice is disabled.
  href?: string;             // Link of a download; else `run` is called.
  run?: () => void;
  disabled?: boolean;
  checked?: boolean;         // State of a toggle; the menu stays open.
}

export function Menu({ text, icon, choices, children, on_open, small }: {
  text: string; icon?: IconName; choices: Choice[]; children?: ComponentChildren; on_open?: () => void; small?: boolean;
}) {
  const [open, set_open] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    on_open?.();
    const outside = (event: MouseEvent) => { if (!box.current?.contains(event.target as Node)) set_open(false); };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const items = () => [...(box.current?.querySelectorAll<HTMLElement>('[role^="menuitem"]:not([aria-disabled="true"])') ?? [])];
  useEffect(() => { if (open) items()[0]?.focus({ preventScroll: true }); }, [open]);
  const close = () => {
    set_open(false);
    button.current?.focus();
  };
  const on_key = (event: KeyboardEvent) => {
    if (!open) return;
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") all[(at + 1) % all.length]?.focus();
    else if (event.key === "ArrowUp") all[(at - 1 + all.length) % all.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu" ref={box} onKeyDown={on_key}>
      <button type="button" ref={button} class={`button${small ? " small" : ""}`} aria-haspopup="menu" aria-expanded={open} onClick={() => set_open(!open)}>
        {icon && <Icon name={icon} />}{text}
      </button>
      {open && (
        <div class="menu-list" role="menu" aria-label={text}>
          {choices.map((choice) => {
            const inner = <><span>{choice.text}</span>{choice.note && <small>{choice.note}</small>}</>;
            if (choice.checked !== undefined) {
              return <button key={choice.key} type="button" role="menuitemcheckbox" tabIndex={-1} aria-checked={choice.checked} onClick={() => choice.run?.()}><span class="tick">{choice.checked && <Icon name="check" />}</span>{inner}</button>;
            }
            if (choice.href && !choice.disabled) return <a key={choice.key} role="menuitem" tabIndex={-1} href={choice.href} download onClick={() => set_open(false)}>{inner}</a>;
            return (
              <button key={choice.key} type="button" role="menuitem" tabIndex={-1} aria-disabled={choice.disabled} class={choice.disabled ? "off" : ""}
                onClick={() => { if (!choice.disabled) { set_open(false); choice.run?.(); } }}>{inner}</button>
            );
          })}
          {children}
        </div>
      )}
    </div>
  );
}
