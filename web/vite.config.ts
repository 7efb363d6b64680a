import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build, defineConfig, type Plugin, type Rollup } from 'vite';

/** The first versions that support `light-dark()`. */
const TARGET = ['chrome123', 'edge123', 'firefox120', 'safari17.5'];

/**
 * Builds the service worker: one file, because a classic worker cannot import a module. Inserts the list of the build's files, and a
 * hash of the list. The hash makes browsers update the service worker with every build.
 */
const buildServiceWorker: Plugin = {
  name: 'build-service-worker',
  // Runs after Vite has added the stylesheet.
  enforce: 'post',
  async generateBundle(_, bundle) {
    const files = Object.keys(bundle)
      .filter((name) => name.startsWith('assets/'))
      .sort();
    const hash = createHash('sha256').update(files.join()).digest('hex').slice(0, 12);
    const list = JSON.stringify(files);
    const source = (await bundleServiceWorker()).replace('__BUILD__', hash).replace('__FILES__', () => list);
    this.emitFile({ type: 'asset', fileName: 'sw.js', source });
  },
};

/** The script of the page that determines the prefix of the hub's address. */
const SCRIPT = /<script>(.*?)<\/script>/s;

function pageOf(bundle: Rollup.OutputBundle): string {
  const page = bundle['index.html'];
  if (page?.type !== 'asset') throw new Error('The build has no index.html.');
  return String(page.source);
}

/**
 * Adds the page for unknown paths: the console, which shows *Page not found*. The hub serves this page with status 404. The page has no
 * script that determines the prefix, because an unknown path does not show where the prefix ends.
 */
const addNotFoundPage: Plugin = {
  name: 'add-not-found-page',
  // Runs after Vite has written the page.
  enforce: 'post',
  generateBundle(_, bundle) {
    this.emitFile({ type: 'asset', fileName: '404.html', source: pageOf(bundle).replace(SCRIPT, '') });
  },
};

const sourceFile = (name: string) => fileURLToPath(new URL(`src/${name}`, import.meta.url));

/** Puts the icon into the page: browsers request the icon of a page again when the address changes. */
const inlineIcon: Plugin = {
  name: 'inline-icon',
  transformIndexHtml(page) {
    const icon = readFileSync(fileURLToPath(new URL('public/icon.svg', import.meta.url)), 'utf8').trim();
    // Compresses better than Base64.
    const escaped = icon.replaceAll('"', "'").replaceAll(/[#<>]/g, encodeURIComponent);
    return page.replace('href="./icon.svg"', `href="data:image/svg+xml,${escaped}"`);
  },
};

const HEADERS = fileURLToPath(new URL('public/_headers', import.meta.url));

/**
 * Adds headers: the hash of the page's script, and for the page of a session the files of its view, so that browsers fetch them together
 * with the code of the first load.
 */
const addHeaders: Plugin = {
  name: 'add-headers',
  // Runs after Vite has written the page.
  enforce: 'post',
  generateBundle(_, bundle) {
    const view = sourceFile('views/session.tsx');
    const chunks = Object.values(bundle).filter((file) => file.type === 'chunk');
    const chunk = chunks.find(({ moduleIds }) => moduleIds.includes(view));
    if (!chunk) throw new Error('The build has no chunk with the view of a session.');
    const files = [chunk.fileName, ...chunk.imports];
    const rules = [
      ['/sessions/:id', '../'],
      ['/sessions/:id/:tab', '../../'],
    ].map(([path, root]) => `${path}\n  Link: ${files.map((name) => `<${root}${name}>; rel=modulepreload`).join(', ')}\n`);
    const hash = createHash('sha256')
      .update(SCRIPT.exec(pageOf(bundle))?.[1] ?? '')
      .digest('base64');
    const headers = readFileSync(HEADERS, 'utf8').replace('__SCRIPT__', `'sha256-${hash}'`);
    this.emitFile({ type: 'asset', fileName: '_headers', source: [headers, ...rules].join('\n') });
  },
};

/**
 * Makes the script that requests a JWT (`state/early-requests.ts`) asynchronous, so that it runs as soon as it has arrived. Other module scripts
 * wait for the stylesheet. The script stays before the script of the console, so that browsers fetch it first.
 */
const runEarlyRequestsFirst: Plugin = {
  name: 'run-early-requests-first',
  transformIndexHtml: {
    // Runs after Vite has added the scripts.
    order: 'post',
    handler: (page, { bundle }) => {
      if (!bundle) return page;
      const changed = page.replace(/<script type="module"(?=[^>]*\/early-requests-[^/]*\.js")/, '$& async');
      if (changed === page) throw new Error('The page has no script with the early requests.');
      return changed;
    },
  },
};

type ImportsOf = (id: string) => readonly string[];

/** Returns a function that says whether a module is loaded with one of the entries: they import the module without `import()`. */
function createIsLoadedWith(entries: string[]) {
  const loaded = new Set<string>();
  const visit = (id: string, importsOf: ImportsOf) => {
    if (loaded.has(id)) return;
    loaded.add(id);
    for (const imported of importsOf(id)) visit(imported, importsOf);
  };
  return (id: string, importsOf: ImportsOf): boolean => {
    for (const entry of entries) visit(entry, importsOf);
    return loaded.has(id);
  };
}
const createImportsOf =
  (context: { getModuleInfo: (id: string) => { importedIds: readonly string[] } | null }): ImportsOf =>
  (id) =>
    context.getModuleInfo(id)?.importedIds ?? [];
const isOfEarlyRequests = createIsLoadedWith([sourceFile('state/early-requests.ts')]);
const isInitial = createIsLoadedWith([sourceFile('main.tsx')]);
const isOfSession = createIsLoadedWith([sourceFile('views/session.tsx')]);
const isOfOtherView = createIsLoadedWith(
  ['account-menu', 'inbox', 'machines', 'new-session', 'settings'].map((view) => sourceFile(`views/${view}.tsx`)),
);

async function bundleServiceWorker(): Promise<string> {
  const built = await build({
    configFile: false,
    root: import.meta.dirname,
    publicDir: false,
    logLevel: 'warn',
    build: { write: false, target: TARGET, rollupOptions: { input: 'src/sw.ts', output: { format: 'iife' } } },
  });
  const [bundled] = [built].flat();
  const chunk = bundled && 'output' in bundled ? bundled.output[0] : undefined;
  if (!chunk) throw new Error('The service worker was not built.');
  return chunk.code;
}

const { version } = JSON.parse(readFileSync(fileURLToPath(new URL('package.json', import.meta.url)), 'utf8')) as { version: string };

export default defineConfig({
  define: { CONSOLE_VERSION: JSON.stringify(version) },
  // Relative addresses, because a proxy may serve the hub under a prefix.
  base: './',
  plugins: [buildServiceWorker, addNotFoundPage, addHeaders, inlineIcon, runEarlyRequestsFirst],
  // Holds the files whose paths must not change with a build, such as the manifest.
  publicDir: 'public',
  resolve: {
    alias: [
      // `virtua` is written for React.
      { find: /^react(-dom)?$/, replacement: 'preact/compat' },
      { find: 'react/jsx-runtime', replacement: 'preact/jsx-runtime' },
      // Imported by the icons of `lucide-preact`.
      { find: '../createLucideIcon.mjs', replacement: sourceFile('ui/create-icon.ts') },
    ],
  },
  build: {
    outDir: 'dist',
    target: TARGET,
    // An inlined asset is a data: URL, which the Content-Security-Policy allows only for images.
    assetsInlineLimit: 0,
    // One stylesheet for all views, although the first load grows by 7 KB: browsers never retry a stylesheet that failed to load.
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: 'index.html',
      output: {
        // One file for the code of the first load, and one for the code of a session: small files compress badly, and each file is a
        // request. What a session shares with another view is loaded at first, so that the other view does not load the session's code.
        codeSplitting: {
          groups: [
            {
              // Before the next group, which would take the modules that it imports.
              priority: 1,
              name: (id, context) => (isOfEarlyRequests(id, createImportsOf(context)) ? 'early-requests' : null),
            },
            {
              name: (id, context) => {
                const importsOf = createImportsOf(context);
                if (isInitial(id, importsOf)) return 'app';
                if (!isOfSession(id, importsOf)) return null;
                return isOfOtherView(id, importsOf) ? 'app' : 'session-view';
              },
            },
          ],
        },
        entryFileNames: 'assets/[name]-[hash].js',
      },
    },
  },
});
