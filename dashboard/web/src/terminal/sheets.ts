// xterm.js writes style elements and style attributes, which the Content-Security-Policy of the page refuses. While a terminal is open, the
// document makes elements whose styles go through style sheet objects instead.

const made = (tag: string, options?: ElementCreationOptions): HTMLElement => Document.prototype.createElement.call(document, tag, options);

// Stands for a style element: its text is an adopted style sheet.
function style_stand_in(): HTMLElement {
  const element = made("span");
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  element.hidden = true;
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text), get: () => "" });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

function create(tag: string, options?: ElementCreationOptions): HTMLElement {
  if (tag === "style") return style_stand_in();
  const element = made(tag, options);
  if (tag === "span") {
    element.setAttribute = (name: string, value: string) => {
      if (name === "style") element.style.cssText = value;
      else Element.prototype.setAttribute.call(element, name, value);
    };
  }
  return element;
}

let users = 0;

// Returns a function for the end of the terminal.
export function styles_by_sheets(): () => void {
  if (users++ === 0) document.createElement = create as typeof document.createElement;
  return () => {
    if (--users === 0) delete (document as { createElement?: unknown }).createElement;
  };
}
