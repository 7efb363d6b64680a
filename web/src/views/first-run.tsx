/** The quick start where a list of sessions would be. */

import type { ComponentChildren } from 'preact';
import { Suspense } from 'preact/compat';
import { useState } from 'preact/hooks';
import { Skeleton } from '../ui/loading.tsx';
import { lazy } from './lazy.tsx';

const QuickStart = lazy(() => import('./quick-start.tsx').then(({ QuickStart }) => QuickStart));

/**
 * Shows the quick start while there is no session, and otherwise its children. The quick start stays when the first session appears, so
 * that it can say what has connected.
 */
export function FirstRunGate({ isEmpty, children = null }: { isEmpty: boolean; children?: ComponentChildren }) {
  const [wasEmpty, setWasEmpty] = useState(isEmpty);
  if (isEmpty && !wasEmpty) setWasEmpty(true);
  if (!isEmpty && !wasEmpty) return <>{children}</>;
  return (
    <Suspense fallback={<Skeleton label="Loading" />}>
      <QuickStart />
    </Suspense>
  );
}
