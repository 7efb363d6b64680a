/** The console's entry. */

import './styles/tokens.css';
import './styles/base.css';
import './ui/ui.css';
import { render } from 'preact';
import { begin } from './hub.ts';
import { readPush, registerServiceWorker } from './push.ts';
import { namespace } from './state/store.ts';
import { applyTheme } from './state/theme.ts';
import { App } from './views/app.tsx';

/** So soon after the page itself, in milliseconds, a newer one is no cure. */
const FRESH_MS = 10_000;

// A file of this build may be gone from the hub: a newer one was deployed, and the page has to be its page. When the hub is
// not there either, the page stays with what was written in it, and shows that a part is missing.
addEventListener('vite:preloadError', () => void loadAnew());

async function loadAnew(): Promise<void> {
  if (performance.now() < FRESH_MS) return;
  const page = await fetch('/', { method: 'HEAD', cache: 'no-store' }).catch(() => null);
  if (page?.ok) location.reload();
}

applyTheme();
await begin();
const root = document.getElementById('app');
if (root) render(<App />, root);
void registerServiceWorker().then(() => (namespace.value === null ? undefined : readPush()));
