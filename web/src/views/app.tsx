/** The frame around all views, and which of them an address shows. */

import './app.css';
import { Suspense } from 'preact/compat';
import { useEffect, useRef } from 'preact/hooks';
import { Link, Route, Switch, useLocation } from 'wouter-preact';
import { own } from '../own.ts';
import { namespace, openSession, pendingCount, summaries } from '../state/store.ts';
import { titleOf } from '../state/sessions.ts';
import { Boundary } from '../ui/boundary.tsx';
import { Dialogs } from '../ui/dialog.tsx';
import { lazy } from '../ui/lazy.tsx';
import { Skeleton } from '../ui/pieces.tsx';
import { Toasts } from '../ui/toasts.tsx';
import { hasKeyboard, isWide } from '../ui/device.ts';
import { ConnectionBanner } from './connection.tsx';
import { NavBar } from './nav-bar.tsx';
import { SessionList } from './session-list.tsx';
import { SessionView } from './session.tsx';
import { Shortcuts } from './shortcuts.tsx';
import { SignIn } from './sign-in.tsx';

const Archive = lazy(() => import('./archive.tsx').then(({ Archive }) => ({ default: Archive })));
const Machines = lazy(() => import('./machines.tsx').then(({ Machines }) => ({ default: Machines })));
const NewSession = lazy(() => import('./new-session.tsx').then(({ NewSession }) => ({ default: NewSession })));
const Settings = lazy(() => import('./settings.tsx').then(({ Settings }) => ({ default: Settings })));

/** The console. */
export function App() {
  return (
    <>
      {namespace.value === null ? <SignIn /> : <Frame />}
      <Dialogs />
      <Toasts />
    </>
  );
}

function Frame() {
  const [path, navigate] = useLocation();
  const isHome = path === '/';
  const isSession = path.startsWith('/sessions/');

  useEffect(() => {
    // A notification was opened while the console was: the service worker says where it leads.
    const opened = ({ data }: MessageEvent<{ type?: string; url?: string }>) => {
      if (data?.type === 'open' && data.url) navigate(new URL(data.url).pathname);
    };
    navigator.serviceWorker?.addEventListener('message', opened);
    return () => navigator.serviceWorker?.removeEventListener('message', opened);
  }, [navigate]);

  useFocusOnArrival(path);

  return (
    <div class="frame" data-at={isSession ? 'session' : 'page'}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <ConnectionBanner />
      {isWide.value && (
        <aside class="sidebar" aria-label="Sessions">
          <SessionList />
        </aside>
      )}
      <NavBar />
      <main class={isHome && !isWide.value ? 'sidebar' : 'main'} id="main" tabIndex={-1}>
        <Boundary key={isSession ? path.split('/')[2] : path}>
          <Suspense fallback={<Loading />}>
            <Switch>
              <Route path="/">{() => (isWide.value ? <Welcome /> : <SessionList />)}</Route>
              <Route path="/sessions/:id/:tab?">
                {({ id, tab }) => <SessionView key={id} id={id} tab={tab === 'files' || tab === 'changes' ? tab : 'chat'} />}
              </Route>
              <Route path="/archive">{() => <Archive />}</Route>
              <Route path="/machines">{() => <Machines />}</Route>
              <Route path="/new">{() => <NewSession />}</Route>
              <Route path="/settings">{() => <Settings />}</Route>
              <Route>{() => <Nowhere />}</Route>
            </Switch>
          </Suspense>
        </Boundary>
      </main>
      <Shortcuts />
      <Title path={path} />
    </div>
  );
}

/**
 * Gives the focus to the view when what had it is gone with the view before, as a list's line on a phone: keys and screen
 * readers go on from there. Back at the list that is the line one came from.
 */
function useFocusOnArrival(path: string): void {
  const [, , id] = path.split('/');
  const view = path.startsWith('/sessions/') ? `/sessions/${id}` : path;
  const before = useRef(view);
  useEffect(() => {
    if (before.current === view) return;
    const line = document.querySelector<HTMLElement>(`.session-row[href="${before.current}"]`);
    before.current = view;
    if (document.activeElement !== document.body) return;
    const place = view === '/' && line !== null ? line : document.getElementById('main');
    place?.focus({ preventScroll: true });
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
  const count = Object.values(summaries.value).length;
  return (
    <div class="empty">
      <h2>{count === 0 ? 'Nothing here yet' : 'Choose a session'}</h2>
      {hasKeyboard.value && (
        <p>
          <kbd>/</kbd> searches, <kbd>n</kbd> starts a session, <kbd>?</kbd> shows all keys.
        </p>
      )}
    </div>
  );
}

function Nowhere() {
  return (
    <div class="empty">
      <h2>There is no such page</h2>
      <Link href="/">To the sessions</Link>
    </div>
  );
}

const NAMES: Record<string, string> = { '/': 'Sessions', '/archive': 'Archive', '/machines': 'Machines', '/new': 'New session', '/settings': 'Settings' };

/**
 * The page's title: the view, and how many agents wait, which also stands on the icon of an installed console. A screen
 * reader says it only when a page is loaded, so another view is told of here.
 */
function Title({ path }: { path: string }) {
  const count = pendingCount.value;
  const shown = own(summaries.value, openSession.value ?? '');
  const name = shown ? titleOf(shown) : own(NAMES, path);
  useEffect(() => {
    const title = name === undefined ? 'Session gateway' : `${name} · Session gateway`;
    document.title = count > 0 ? `(${count}) ${title}` : title;
  }, [count, name]);
  useEffect(() => {
    const badge = navigator as { setAppBadge?: (count: number) => Promise<void> };
    void badge.setAppBadge?.(count).catch(() => {});
  }, [count]);
  return (
    <p class="hidden-visually" role="status">
      {name}
    </p>
  );
}
