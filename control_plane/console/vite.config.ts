import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` serves the page itself and passes API calls on to a replica on the default port.
export default defineConfig({
  plugins: [react()],
  worker: { format: "es" },
  build: {
    outDir: "dist",
    target: "es2022",
    chunkSizeWarningLimit: 1800, // the viewer of the API's page
    reportCompressedSize: false,
    rollupOptions: { input: ["index.html", "admin.html", "docs.html"] },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8088", "/openapi.json": "http://127.0.0.1:8088" } },
});
