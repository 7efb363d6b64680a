import { createHash } from 'node:crypto';
import { defineConfig, type Plugin } from 'vite';

/** Marks the service worker with the build: it is another one as soon as any file is. */
const markBuild: Plugin = {
  name: 'mark-build',
  generateBundle(_, bundle) {
    const mark = createHash('sha256').update(Object.keys(bundle).sort().join()).digest('hex').slice(0, 12);
    const worker = bundle['sw.js'];
    if (worker?.type === 'chunk') worker.code = worker.code.replace('__BUILD__', mark);
  },
};

export default defineConfig({
  plugins: [markBuild],
  // Where the service worker and the manifest are reached must not change with a build.
  publicDir: 'public',
  resolve: {
    // The virtual list is written for React.
    alias: { react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime' },
  },
  build: {
    outDir: 'dist',
    // Browsers that know `light-dark()`, which the colours are made of.
    target: ['chrome123', 'edge123', 'firefox120', 'safari17.5'],
    // An asset as a data: URL would need an exception in the Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { index: 'index.html', sw: 'src/sw.ts' },
      output: { entryFileNames: ({ name }) => (name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js') },
    },
  },
});
