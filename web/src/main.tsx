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

applyTheme();
await begin();
const root = document.getElementById('app');
if (root) render(<App />, root);
void registerServiceWorker().then(() => (namespace.value === null ? undefined : readPush()));
