/** The console's entry: signs in, renders the views and registers the service worker. */

import './styles/tokens.css';
import './styles/base.css';
import './ui/buttons.css';
import './ui/fields.css';
import './ui/ui.css';
import './ui/menus.css';
import './ui/dialogs.css';
import './ui/toasts.css';
import { render } from 'preact';
import { pagePath } from './content/hub-address.ts';
import { registerServiceWorker } from './state/service-worker.ts';
import { signInAtLoad } from './state/sign-in.ts';
import { namespace } from './state/store.ts';
import { applyStoredTheme } from './state/theme.ts';
import { warnBeforeUnload } from './state/unload.ts';
import { hideComposingKeys } from './ui/composing-keys.ts';
import { App, preloadView } from './views/app.tsx';

hideComposingKeys(window);
applyStoredTheme();
warnBeforeUnload();
void start();

async function start(): Promise<void> {
  // The code of the view is fetched during the sign-in, so that the first rendering is complete and nothing moves afterwards.
  await Promise.all([signInAtLoad(), preloadView(pagePath())]);
  const root = document.getElementById('app');
  if (root) render(<App />, root);
  if (namespace.value === null) void registerServiceWorker();
}
