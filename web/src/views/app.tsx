/** The page layout, and the routes of the views. The hub's `public/_redirects` must list the same routes. */

import './app.css';
import { Suspense } from 'preact/compat';
import { useEffect, useRef } from 'preact/hooks';
import { Link, Route, Switch, useLocation } from 'wouter-preact';
import { getOwn } from '../state/get-own.ts';
import { sessionTitle } from '../state/sessions.ts';
import { loadStates, namespace, openSessionId, pendingRequestCount, summaries } from '../state/store.ts';
import { hasKeyboard, isWide } from '../ui/device.ts';
import { DialogHost } from '../ui/dialog.tsx';
import { ErrorBoundary } from '../ui/error-boundary.tsx';
import { lazy } from './lazy.tsx';
import { Skeleton } from '../ui/loading.tsx';
import { Toasts } from '../ui/toasts.tsx';
import { ConnectionBanner } from './connection-banner.tsx';
import { NavBar } from './nav-bar.tsx';
import { SessionList } from './session-list.tsx';
import { SessionView } from './session.tsx';
import { Shortcuts } from './shortcuts.tsx';
import { SignIn } from './sign-in.tsx';

const Archive = lazy(() => import('./archive.tsx').then(({ Archive }) => ({ default: Archive })));
const Machines = lazy(() => import('./machines.tsx').then(({ Machines }) => ({ default: Machines })));
const NewSession = lazy(() => import('./new-session.tsx').then(({ NewSession }) => ({ default: NewSession })));
const Pair = lazy(() => import('./pair.tsx').then(({ Pair }) => ({ default: Pair })));
const Settings = lazy(() => import('./settings.tsx').then(({ Settings }) => ({ default: Settings })));

export function App() {
  return (
    <>
      {namespace.value === null ? <SignIn /> : <Layout />}
      <DialogHost />
      <Toasts />
    </>
  );
}

function Layout() {
  const [path, navigate] = useLocation();
  const isHome = path === '/';
  const isSession = path.startsWith('/sessions/');

  useEffect(() => {
    // The service worker sends the target of a clicked notification.
    const onMessage = ({ data }: MessageEvent<{ type?: string; url?: string }>) => {
      if (data?.type === 'open' && data.url) navigate(new URL(data.url).pathname);
    };
    navigator.serviceWorker?.addEventListener('message', onMessage);
    return () => navigator.serviceWorker?.removeEventListener('message', onMessage);
  }, [navigate]);

  useFocusOnNavigation(path);

  return (
    <div class="layout" data-view={isSession ? 'session' : 'page'}>
      <a class="skip-link" href="#main">
        Skip to content
      </a>
      <ConnectionBanner />
      {isWide.value && (
        <aside class="sidebar" aria-label="Sessions">
          <SessionList />
        </aside>
      )}
      <NavBar />
      <main class={isHome && !isWide.value ? 'sidebar' : 'main'} id="main" tabIndex={-1}>
        <ErrorBoundary key={isSession ? path.split('/')[2] : path}>
          <Suspense fallback={<Loading />}>
            <Switch>
              <Route path="/">{() => (isWide.value ? <Welcome /> : <SessionList />)}</Route>
              <Route path="/sessions/:id/:tab?">
                {({ id, tab }) => <SessionView key={id} id={id} tab={tab === 'files' || tab === 'changes' ? tab : 'chat'} />}
              </Route>
              <Route path="/archive">{() => <Archive />}</Route>
              <Route path="/machines">{() => <Machines />}</Route>
              <Route path="/new">{() => <NewSession />}</Route>
              <Route path="/pair">{() => <Pair />}</Route>
              <Route path="/settings">{() => <Settings />}</Route>
              <Route>{() => <NotFound />}</Route>
            </Switch>
          </Suspense>
        </ErrorBoundary>
      </main>
      <Shortcuts />
      <PageTitle path={path} />
    </div>
  );
}

/**
 * Focuses the new view if the focused element disappeared with the previous view, so that keyboards and screen readers continue in
 * the new view. In the session list, focuses the row of the session that was open.
 */
function useFocusOnNavigation(path: string): void {
  const [, , id] = path.split('/');
  const view = path.startsWith('/sessions/') ? `/sessions/${id}` : path;
  const previous = useRef(view);
  useEffect(() => {
    if (previous.current === view) return;
    const previousRow = document.querySelector<HTMLElement>(`.session-row[href="${previous.current}"]`);
    previous.current = view;
    if (document.activeElement !== document.body) return;
    const target = view === '/' && previousRow !== null ? previousRow : document.getElementById('main');
    target?.focus({ preventScroll: true });
  }, [view]);
}

function Loading() {
  return (
    <div class="page">
      <Skeleton label="Loading" />
    </div>
  );
}

function Welcome() {
  const isEmpty = loadStates.list.value.status === 'ready' && Object.keys(summaries.value).length === 0;
  return (
    <div class="empty">
      <h2>{isEmpty ? 'Nothing here yet' : 'Select a session'}</h2>
      {hasKeyboard.value && (
        <p>
          <kbd>/</kbd> searches, <kbd>n</kbd> starts a session, <kbd>?</kbd> lists all shortcuts.
        </p>
      )}
    </div>
  );
}

function NotFound() {
  return (
    <div class="empty">
      <h2>Page not found</h2>
      <Link href="/">Back to sessions</Link>
    </div>
  );
}

const VIEW_NAMES: Record<string, string> = {
  '/': 'Sessions',
  '/archive': 'Archive',
  '/machines': 'Machines',
  '/new': 'New session',
  '/pair': 'Connect a device',
  '/settings': 'Settings',
};

/**
 * Shows the number of pending requests in the document title and the app badge. A status element announces each new view, because
 * screen readers announce a title only at page load.
 */
function PageTitle({ path }: { path: string }) {
  const count = pendingRequestCount.value;
  const openSummary = getOwn(summaries.value, openSessionId.value ?? '');
  const name = openSummary ? sessionTitle(openSummary) : getOwn(VIEW_NAMES, path);
  useEffect(() => {
    const title = name === undefined ? 'Session gateway' : `${name} · Session gateway`;
    document.title = count > 0 ? `(${count}) ${title}` : title;
  }, [count, name]);
  useEffect(() => {
    const badge = navigator as { setAppBadge?: (count: number) => Promise<void> };
    void badge.setAppBadge?.(count).catch(() => {});
  }, [count]);
  return (
    <p class="visually-hidden" role="status">
      {name}
    </p>
  );
}
