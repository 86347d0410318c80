// Fixed names and no hashes: the head serves the files with an ETag, and CI compares a rebuild byte for byte.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "dist",
    target: "es2021",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      output: { entryFileNames: "assets/app.js", assetFileNames: "assets/app[extname]", inlineDynamicImports: true },
    },
  },
});
