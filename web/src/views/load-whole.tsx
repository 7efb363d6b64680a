/** The button that loads the rest of a large message. */

import { Download } from 'lucide-preact';
import { useState } from 'preact/hooks';
import type { CutMessage } from '../content/excerpt.ts';
import { formatSize } from '../content/file-size.ts';
import { loadWholeMessages } from '../state/actions.ts';
import { useExpanded } from '../ui/expanded.ts';
import { tryOrToast } from '../ui/toasts.tsx';
import { OUTPUT_NAME } from './tool-content.tsx';

/** `cut`: the messages of an item that are not shown whole. */
export function LoadWhole({ cut = [], sessionId }: { cut: CutMessage[] | undefined; sessionId: string }) {
  const [isLoading, setLoading] = useState(false);
  const [, setExpanded] = useExpanded(OUTPUT_NAME);
  if (cut.length === 0) return null;
  const bytes = cut.reduce((sum, message) => sum + message.bytes, 0);
  const load = async () => {
    setLoading(true);
    if (await tryOrToast('Could not load the message', () => loadWholeMessages(sessionId, cut))) setExpanded(true);
    setLoading(false);
  };
  return (
    <button type="button" class="button quiet" disabled={isLoading} onClick={() => void load()}>
      <Download size={15} aria-hidden /> {isLoading ? `Loading ${formatSize(bytes)} …` : `Show all (${formatSize(bytes)})`}
    </button>
  );
}
