/** The page layout, and the routes of the views. The hub's `public/_redirects` must list the same routes. */

import './app.css';
import { Compass } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useEffect, useRef } from 'preact/hooks';
import { Link, Route, Router, Switch, useLocation } from 'wouter-preact';
import { SIGN_IN_PATH } from '../content/device-code.ts';
import { pagePath, pathPrefix } from '../content/hub-address.ts';
import { getOwn } from '../state/get-own.ts';
import { switchAccount } from '../state/hub-client.ts';
import { fetchMarkdownRenderer } from '../state/markdown.ts';
import { isArchived, sessionTitle } from '../state/sessions.ts';
import { loadStates, namespace, openSessionId, summaries, waitingCount, waitingInOtherAccounts } from '../state/store.ts';
import { hasKeyboard, isWide } from '../ui/device.ts';
import { DialogHost } from '../ui/dialog.tsx';
import { ErrorBoundary } from '../ui/error-boundary.tsx';
import { lazy } from './lazy.tsx';
import { Skeleton } from '../ui/loading.tsx';
import { Toasts } from '../ui/toasts.tsx';
import { ConnectionBanner } from './connection-banner.tsx';
import { FirstRunGate } from './first-run.tsx';
import { NavBar } from './nav-bar.tsx';
import { SessionList } from './session-list.tsx';
import { Shortcuts } from './shortcuts.tsx';

const Archive = lazy(() => import('./archive.tsx').then(({ Archive }) => Archive));
const Inbox = lazy(() => import('./inbox.tsx').then(({ Inbox }) => Inbox));
const Machines = lazy(() => import('./machines.tsx').then(({ Machines }) => Machines));
const NewSession = lazy(() => import('./new-session.tsx').then(({ NewSession }) => NewSession));
const Pair = lazy(() => import('./pair.tsx').then(({ Pair }) => Pair));
const SignIn = lazy(() => import('./sign-in.tsx').then(({ SignIn }) => SignIn));
const SessionView = lazy(() => import('./session.tsx').then(({ SessionView }) => SessionView));
const Settings = lazy(() => import('./settings.tsx').then(({ Settings }) => Settings));

/** Fetches the code of the session view if `path` is the page of a session. Many page loads open a session. */
export async function preloadView(path: string): Promise<void> {
  if (!path.startsWith('/sessions/')) return;
  void fetchMarkdownRenderer();
  await SessionView.preload();
}

export function App() {
  return (
    <Router base={pathPrefix()}>
      <Page />
    </Router>
  );
}

function Page() {
  const [path] = useLocation();
  return (
    <>
      {namespace.value === null || path === SIGN_IN_PATH ? (
        <ErrorBoundary>
          <Suspense fallback={null}>
            <SignIn />
          </Suspense>
        </ErrorBoundary>
      ) : (
        <Layout />
      )}
      <DialogHost />
      <Toasts />
    </>
  );
}

function Layout() {
  const [path, navigate] = useLocation();
  const isHome = path === '/';
  const isSession = path.startsWith('/sessions/');
  const isChat = isSession && !/\/(changes|files)$/.test(path);

  useEffect(() => {
    // `account`: the service worker asks what this page shows. `open`: the target of a clicked notification.
    const onMessage = ({ data, ports }: MessageEvent<{ type?: string; url?: string }>) => {
      if (data?.type === 'account') ports[0]?.postMessage({ namespace: namespace.value, path: location.pathname });
      if (data?.type === 'open' && data.url) openLink(new URL(data.url), navigate);
    };
    navigator.serviceWorker?.addEventListener('message', onMessage);
    return () => navigator.serviceWorker?.removeEventListener('message', onMessage);
  }, [navigate]);

  useFocusOnNavigation(path);
  usePreloadSessionView();

  return (
    <div class="layout" data-view={isSession ? 'session' : 'page'}>
      {/* biome-ignore lint/a11y/useValidAnchor: a link, because it skips to a part of the page. */}
      <a class="skip-link" href="#main" onClick={skipToContent}>
        Skip to content
      </a>
      {!isChat && <ConnectionBanner />}
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
              <Route path="/inbox">{() => <Inbox />}</Route>
              <Route path="/machines">{() => <Machines />}</Route>
              <Route path="/new">{() => <NewSession />}</Route>
              <Route path="/pair">{() => <Pair />}</Route>
              <Route path="/settings/:page?">{({ page }) => <Settings page={page} />}</Route>
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

/** Opens the target of a notification. The page is loaded again if the target belongs to another account. */
function openLink(url: URL, navigate: (path: string) => void): void {
  const account = url.searchParams.get('account');
  url.searchParams.delete('account');
  if (account === null || account === namespace.value) navigate(pagePath(url.pathname) + url.search);
  else switchAccount(account, url);
}

/** The browser would open the start page: it resolves the fragment from the hub's address. */
function skipToContent(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
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
    const previousRow = document.querySelector<HTMLElement>(`.session-row[href="${pathPrefix()}${previous.current}"]`);
    previous.current = view;
    if (document.activeElement !== document.body) return;
    const target = view === '/' && previousRow !== null ? previousRow : document.getElementById('main');
    target?.focus({ preventScroll: true });
  }, [view]);
}

/** Fetches the code of a session once the list is shown, so that a session opens at once. */
function usePreloadSessionView(): void {
  const isListShown = loadStates.listAndInbox.value.status === 'ready';
  useEffect(() => {
    if (isListShown) void SessionView.preload();
  }, [isListShown]);
}

function Loading() {
  return (
    <div class="page">
      <Skeleton label="Loading" />
    </div>
  );
}

function Welcome() {
  const isLoaded = loadStates.list.value.status === 'ready';
  const isEmpty = isLoaded && Object.values(summaries.value).every(isArchived);
  return <FirstRunGate isEmpty={isEmpty}>{isLoaded && <SelectSession />}</FirstRunGate>;
}

function SelectSession() {
  return (
    <div class="empty">
      <h2>Select a session</h2>
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
      <Compass size={40} />
      <h1>Page not found</h1>
      <p>Nothing is at this address. The link may be old or incomplete.</p>
      <Link href="/" class="button primary">
        Back to sessions
      </Link>
    </div>
  );
}

const VIEW_NAMES: Record<string, string> = {
  '/': 'Sessions',
  '/archive': 'Archive',
  '/inbox': 'Waiting for you',
  '/machines': 'Machines',
  '/new': 'New session',
  '/pair': 'Connect a device',
  '/settings': 'Settings',
  '/settings/status': 'Status',
};

/**
 * Shows the number of waiting items in the document title and the app badge. A status element announces each new view, because
 * screen readers announce a title only at page load.
 */
function PageTitle({ path }: { path: string }) {
  const count = waitingCount.value;
  const waitingElsewhere = waitingInOtherAccounts.value;
  const openSummary = getOwn(summaries.value, openSessionId.value ?? '');
  const name = openSummary ? sessionTitle(openSummary) : getOwn(VIEW_NAMES, path);
  useEffect(() => {
    const title = name === undefined ? 'Session gateway' : `${name} · Session gateway`;
    document.title = count > 0 ? `(${count}) ${title}` : title;
  }, [count, name]);
  useEffect(() => {
    const badge = navigator as { setAppBadge?: (count: number) => Promise<void> };
    void badge.setAppBadge?.(count + waitingElsewhere).catch(() => {});
  }, [count, waitingElsewhere]);
  return (
    <p class="visually-hidden" role="status">
      {name}
    </p>
  );
}
