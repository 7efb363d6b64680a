import { createHash } from 'node:crypto';
import { defineConfig, type Plugin } from 'vite';

/**
 * Inserts the list of the build's files, and a hash of the list, into the service worker. The hash makes browsers update the service
 * worker with every build.
 */
const insertFileList: Plugin = {
  name: 'insert-file-list',
  // Runs after Vite has added the stylesheet.
  enforce: 'post',
  generateBundle(_, bundle) {
    const files = Object.keys(bundle)
      .filter((name) => name.startsWith('assets/'))
      .sort();
    const hash = createHash('sha256').update(files.join()).digest('hex').slice(0, 12);
    const worker = bundle['sw.js'];
    if (worker?.type !== 'chunk') return;
    worker.code = worker.code.replace('__BUILD__', hash).replace('__FILES__', () => JSON.stringify(files.map((name) => `/${name}`)));
  },
};

export default defineConfig({
  plugins: [insertFileList],
  // Holds the files whose paths must not change with a build, such as the manifest.
  publicDir: 'public',
  resolve: {
    // `virtua` is written for React.
    alias: { react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime' },
  },
  build: {
    outDir: 'dist',
    // The first versions that support `light-dark()`.
    target: ['chrome123', 'edge123', 'firefox120', 'safari17.5'],
    // An inlined asset is a data: URL, which the Content-Security-Policy allows only for images.
    assetsInlineLimit: 0,
    // One stylesheet for all views, although the first load grows by 7 KB: browsers never retry a stylesheet that failed to load.
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { index: 'index.html', sw: 'src/sw.ts' },
      output: { entryFileNames: ({ name }) => (name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js') },
    },
  },
});
