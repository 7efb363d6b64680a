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

// A file of this build is gone from the hub: a newer one was deployed, and the page has to be its page.
addEventListener('vite:preloadError', (event) => {
  if (performance.now() < 10_000) return;
  event.preventDefault();
  location.reload();
});

applyTheme();
await begin();
const root = document.getElementById('app');
if (root) render(<App />, root);
void registerServiceWorker().then(() => (namespace.value === null ? undefined : readPush()));
