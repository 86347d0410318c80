// File names are fixed and contain no hashes: the head serves the files with an ETag, and CI compares a rebuild byte for byte.
import { defineConfig } from "vite";

// The bundle keeps only the Chinese texts of reasons, because rows carry the English ones, and drops stories, which only `volador tune why` prints. With `?english` it is the English texts.
const texts_of_reasons = (code, text) => JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(code)).filter(([key]) => !key.startsWith("story.")).map(([key, texts]) => [key, text(texts)])));
const one_language = {
  name: "one-language",
  enforce: "pre",
  transform(code, id) {
    if (id.endsWith("/i18n/reasons.json")) return texts_of_reasons(code, ({ zh }) => ({ zh }));
    return id.endsWith("/i18n/reasons.json?english") ? texts_of_reasons(code, ({ en }) => en) : null;
  },
};

const kOwnStyles = ["configured.css", "markdown.css"];  // Of parts that are loaded when they are opened.

export default defineConfig({
  base: "/",
  plugins: [one_language],
  worker: { format: "es", rollupOptions: { output: { entryFileNames: "assets/[name].js" } } },
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "dist",
    target: "es2021",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      // The terminal, forms and what only experiments of a configuration have are loaded when they are opened; everything else is one file.
      output: {
        entryFileNames: "assets/app.js",
        chunkFileNames: ({ name }) => `assets/${name === "screen" ? "terminal" : name}.js`,
        assetFileNames: ({ names }) => (names[0] === "screen.css" ? "assets/terminal.css" : kOwnStyles.includes(names[0]) ? `assets/${names[0]}` : "assets/app[extname]"),
      },
    },
  },
});
