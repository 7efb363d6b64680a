import { createHash } from 'node:crypto';
import { defineConfig, type Plugin } from 'vite';

/** Tells the service worker the build's files, and a mark of them: it is another worker as soon as any file is. */
const nameFiles: Plugin = {
  name: 'name-files',
  // Runs after Vite has added the stylesheet.
  enforce: 'post',
  generateBundle(_, bundle) {
    const files = Object.keys(bundle).filter((name) => name.startsWith('assets/')).sort();
    const mark = createHash('sha256').update(files.join()).digest('hex').slice(0, 12);
    const worker = bundle['sw.js'];
    if (worker?.type !== 'chunk') return;
    worker.code = worker.code.replace('__BUILD__', mark).replace('__FILES__', () => JSON.stringify(files.map((name) => `/${name}`)));
  },
};

export default defineConfig({
  plugins: [nameFiles],
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
    // All styles come with the page (7 KB more): a stylesheet of a view that failed to load is never requested again.
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { index: 'index.html', sw: 'src/sw.ts' },
      output: { entryFileNames: ({ name }) => (name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js') },
    },
  },
});
