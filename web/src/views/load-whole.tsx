/** The button that loads the rest of a large message. */

import { Download } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import type { CutMessage } from '../content/excerpt.ts';
import { formatSize } from '../content/file-size.ts';
import { loadWholeMessages } from '../state/actions.ts';
import { useExpanded } from '../ui/expanded.ts';
import { tryOrToast } from '../ui/toasts.tsx';
import { OUTPUT_NAME } from './tool-content.tsx';

/** Larger images are loaded only on demand. */
const MAX_IMAGE_BYTES = 2 * 1024 * 1024;

/** `cut`: the messages of an item that are shown only as excerpts. Images that are in view are loaded without a click. */
export function LoadWhole({ cut = [], sessionId }: { cut: CutMessage[] | undefined; sessionId: string }) {
  return cut.length === 0 ? null : <LoadButton cut={cut} sessionId={sessionId} />;
}

function LoadButton({ cut, sessionId }: { cut: CutMessage[]; sessionId: string }) {
  const [isLoading, setLoading] = useState(false);
  const [, setExpanded] = useExpanded(OUTPUT_NAME);
  const bytes = cut.reduce((sum, message) => sum + message.bytes, 0);
  const loadsAtOnce = cut.every(({ isImage }) => isImage) && bytes <= MAX_IMAGE_BYTES;
  useEffect(() => {
    // After an error, the button remains.
    if (loadsAtOnce) loadWholeMessages(sessionId, cut).catch(() => {});
  }, [loadsAtOnce]);
  const load = async () => {
    setLoading(true);
    if (await tryOrToast('Could not load the message', () => loadWholeMessages(sessionId, cut))) setExpanded(true);
    setLoading(false);
  };
  return (
    <button type="button" class="button quiet" disabled={isLoading} onClick={() => void load()}>
      <Download size={15} /> {isLoading ? `Loading ${formatSize(bytes)} …` : `Show all (${formatSize(bytes)})`}
    </button>
  );
}
