/** The console's entry: signs in, renders the views and registers the service worker. */

import './styles/tokens.css';
import './styles/base.css';
import './ui/ui.css';
import { render } from 'preact';
import { refreshPushStatus, registerServiceWorker } from './state/push.ts';
import { signInAtLoad } from './state/sign-in.ts';
import { namespace } from './state/store.ts';
import { applyStoredTheme } from './state/theme.ts';
import { warnBeforeUnload } from './state/unload.ts';
import { App } from './views/app.tsx';

applyStoredTheme();
warnBeforeUnload();
await signInAtLoad();
const root = document.getElementById('app');
if (root) render(<App />, root);
void registerServiceWorker().then(() => (namespace.value === null ? undefined : refreshPushStatus()));
