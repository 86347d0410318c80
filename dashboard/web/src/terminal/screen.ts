// A terminal in an element of the page. A chunk of its own, since xterm.js is large.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal, type ITheme } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { Command, type Place } from "./command_calls";
import { styles_by_sheets } from "./sheets";

export interface Screen {
  look(): void;  // Takes the colours of the page over.
  close(): void;
}

const kScrollback = 5000;

function theme_of_page(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const dark = document.documentElement.dataset.theme === "dark";
  const [red, green, yellow, blue, magenta, cyan] = dark ? ["#f2777a", "#7fc97f", "#e5c07b", "#7aa9f7", "#c99be8", "#62c4c3"] : ["#b3261e", "#1c7c3a", "#8a5f00", "#1a54c0", "#8b3fb0", "#00707a"];
  return {
    background: color("--panel"), foreground: color("--text"), cursor: color("--accent"), cursorAccent: color("--panel"), selectionBackground: color("--chosen"),
    black: dark ? "#3a414d" : "#161a21", white: dark ? "#e7eaef" : "#59616e", brightBlack: color("--faint"), brightWhite: color("--text"),
    red, green, yellow, blue, magenta, cyan, brightRed: red, brightGreen: green, brightYellow: yellow, brightBlue: blue, brightMagenta: magenta, brightCyan: cyan,
  };
}

// Starts a shell in the rank. `on_end` runs once: with its exit code, or with an error.
export function open_screen(box: HTMLElement, place: Place, label: string, on_end: (end: { code: number } | { error: unknown }) => void): Screen {
  const end_styles = styles_by_sheets();
  const terminal = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono").trim() || "monospace",
    fontSize: 13,
    scrollback: kScrollback,
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    theme: theme_of_page(),
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(box);
  terminal.textarea?.setAttribute("aria-label", label);
  fit.fit();
  terminal.focus();
  let command: Command | null = null;
  let closed = false;
  const watch = new ResizeObserver(() => fit.fit());
  watch.observe(box);
  const encoder = new TextEncoder();
  terminal.onData((keys) => command?.write(encoder.encode(keys)));
  terminal.onBinary((bytes) => command?.write(Uint8Array.from(bytes, (one) => one.charCodeAt(0))));
  terminal.onResize(({ rows, cols }) => command?.resize({ rows, columns: cols }));
  void (async () => {
    try {
      command = await Command.start(place, { rows: terminal.rows, columns: terminal.cols });
      if (closed) return command.close();
      const code = await command.read((bytes) => terminal.write(bytes));
      if (code !== null) on_end({ code });
    } catch (error) {
      if (!closed) on_end({ error });
    }
    terminal.options.disableStdin = true;
  })();
  return {
    look: () => { terminal.options.theme = theme_of_page(); },
    close: () => {
      closed = true;
      watch.disconnect();
      command?.close();
      terminal.dispose();
      end_styles();
    },
  };
}
