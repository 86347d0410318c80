// File names are fixed and contain no hashes: the head serves the files with an ETag, and CI compares a rebuild byte for byte.
import { defineConfig } from "vite";

// The bundle keeps only the Chinese texts of reasons, because rows carry the English ones, and drops stories, which only `volador tune why` prints.
const chinese_reasons = {
  name: "chinese-reasons",
  enforce: "pre",
  transform: (code, id) => (id.endsWith("/i18n/reasons.json") ? JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(code)).filter(([key]) => !key.startsWith("story.")).map(([key, { zh }]) => [key, { zh }]))) : null),
};

export default defineConfig({
  base: "/",
  plugins: [chinese_reasons],
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "dist",
    target: "es2021",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      // The terminal and the form of jobs are loaded when they are opened; everything else is one file.
      output: {
        entryFileNames: "assets/app.js",
        chunkFileNames: ({ name }) => `assets/${name === "screen" ? "terminal" : name}.js`,
        assetFileNames: ({ names }) => (names[0] === "screen.css" ? "assets/terminal.css" : "assets/app[extname]"),
      },
    },
  },
});
