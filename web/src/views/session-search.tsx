/** The search within a session, and the jump to a date. */

import './session-search.css';
import { ArrowDown, ArrowUp, CalendarDays, X } from 'lucide-preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { errorText } from '../api/errors.ts';
import { startOfDay } from '../content/rows.ts';
import { findFirstSince } from '../state/history.ts';
import { sync } from '../state/hub-client.ts';
import { jumpTarget, SEARCH_FIELD_ID, searchedSessionId } from '../state/jump.ts';
import { fetchMessagesAround } from '../state/messages-around.ts';
import { MAX_HITS, type SearchProgress, searchSession } from '../state/session-search.ts';
import { formatCount } from '../ui/format.ts';
import { clearMarks, markText } from '../ui/text-highlights.ts';
import { showToast, tryOrToast } from '../ui/toasts.tsx';

/** The search starts after a pause in typing. */
const TYPING_PAUSE_MS = 250;

const NO_SEARCH: SearchProgress = { hits: [], searched: 0, total: 0, isComplete: true };

export function SessionSearch({ sessionId }: { sessionId: string }) {
  const [query, setQuery] = useState('');
  const [currentIndex, setCurrentIndex] = useState(0);
  const [isDateOpen, setDateOpen] = useState(false);
  const { progress, error, isRunning, cancel } = useSearch(sessionId, query.trim());
  const field = useRef<HTMLInputElement>(null);
  const { hits } = progress;
  const hitSeq = hits[currentIndex];

  useEffect(() => field.current?.focus(), []);
  useLayoutEffect(() => setCurrentIndex(0), [query]);
  useEffect(() => {
    const text = query.trim();
    if (hitSeq === undefined || text === '') {
      if (jumpTarget.peek()?.query !== null) jumpTarget.value = null;
      return;
    }
    void tryOrToast('Could not load the messages', () => fetchMessagesAround(sync, sessionId, hitSeq)).then((isLoaded) => {
      if (isLoaded) jumpTarget.value = { sessionId, seq: hitSeq, query: text };
    });
  }, [hitSeq, query.trim()]);
  useMarks(query.trim(), hitSeq);
  useEffect(
    () => () => {
      jumpTarget.value = null;
    },
    [],
  );

  const close = () => {
    searchedSessionId.value = null;
    document.querySelector<HTMLElement>('.messages')?.focus();
  };
  /** `step`: 1 for the next older hit. */
  const move = (step: number) => hits.length > 0 && setCurrentIndex((currentIndex + step + hits.length) % hits.length);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') close();
    else if (event.key === 'Enter' && event.target === field.current) move(event.shiftKey ? -1 : 1);
    else return;
    event.preventDefault();
  };
  return (
    <div class="session-search" role="search" aria-label="Search in this session" onKeyDown={onKeyDown}>
      <div class="session-search-line">
        <input
          ref={field}
          id={SEARCH_FIELD_ID}
          class="input"
          type="search"
          dir="auto"
          enterkeyhint="search"
          placeholder="Search"
          aria-label="Search in this session"
          title="Ctrl+F again opens the browser's search."
          value={query}
          onInput={({ currentTarget }) => setQuery(currentTarget.value)}
        />
        <button type="button" class="button quiet icon" aria-label="Older hit" disabled={hits.length === 0} onClick={() => move(1)}>
          <ArrowUp size={18} />
        </button>
        <button type="button" class="button quiet icon" aria-label="Newer hit" disabled={hits.length === 0} onClick={() => move(-1)}>
          <ArrowDown size={18} />
        </button>
        <button
          type="button"
          class="button quiet icon"
          aria-label="Jump to a date"
          aria-expanded={isDateOpen}
          onClick={() => setDateOpen(!isDateOpen)}
        >
          <CalendarDays size={18} />
        </button>
        <button type="button" class="button quiet icon" aria-label="Close the search" onClick={close}>
          <X size={18} />
        </button>
      </div>
      {isDateOpen && <DateField sessionId={sessionId} />}
      {query.trim() !== '' && (
        <p class="session-search-status small muted">
          <span role="status">{error ?? describeHits(progress, currentIndex, isRunning)}</span>
          {isRunning && (
            <>
              <progress value={progress.searched} max={Math.max(1, progress.total)} aria-label="Searched messages" />
              <button type="button" class="button quiet" onClick={cancel}>
                Cancel
              </button>
            </>
          )}
        </p>
      )}
    </div>
  );
}

function describeHits({ hits, searched, total, isComplete }: SearchProgress, currentIndex: number, isRunning: boolean): string {
  const count = `${formatCount(hits.length)}${hits.length >= MAX_HITS ? '+' : ''}`;
  const found = hits.length > 0 ? `${currentIndex + 1} of ${count}` : '';
  if (isComplete) return found || 'No message contains this text.';
  const progress = `${formatCount(searched)} of ${formatCount(total)} messages searched`;
  if (!isRunning && total === 0) return '';
  return found ? `${found} · ${progress}` : progress;
}

/** Runs a search after a pause in typing. A new text cancels the previous search. */
function useSearch(sessionId: string, text: string) {
  const [progress, setProgress] = useState(NO_SEARCH);
  const [error, setError] = useState<string | null>(null);
  const [isRunning, setRunning] = useState(false);
  const controller = useRef<AbortController>();
  const cancel = () => {
    controller.current?.abort();
    setRunning(false);
  };
  useEffect(() => {
    const abort = new AbortController();
    controller.current = abort;
    setError(null);
    setRunning(text !== '');
    setProgress({ ...NO_SEARCH, isComplete: false });
    if (text === '') return undefined;
    const run = async () => {
      try {
        for await (const update of searchSession(sessionId, text, abort.signal)) {
          if (abort.signal.aborted) return;
          setProgress(update);
        }
      } catch (failure) {
        if (!abort.signal.aborted) setError(errorText(failure));
      }
      if (!abort.signal.aborted) setRunning(false);
    };
    const timer = setTimeout(() => void run(), TYPING_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [sessionId, text]);
  return { progress, error, isRunning, cancel };
}

/** Marks the text in the rendered messages, and scrolls to its first place in the current hit. */
function useMarks(text: string, hitSeq: number | undefined): void {
  useEffect(() => {
    const list = document.querySelector('.messages');
    if (!list || text === '') return undefined;
    let frame = 0;
    let hasScrolled = false;
    const mark = () => {
      frame = 0;
      const row = list.querySelector('.message.hit');
      const place = markText(list, text, row);
      if (!place || hasScrolled) return;
      hasScrolled = true;
      const [{ top, bottom }, area] = [place.getBoundingClientRect(), list.getBoundingClientRect()];
      // A hit far down in a long row may be outside the visible area.
      if (top < area.top || bottom > area.bottom) list.scrollTop += top - area.top - area.height / 3;
    };
    const schedule = () => {
      frame ||= requestAnimationFrame(mark);
    };
    const observer = new MutationObserver(schedule);
    observer.observe(list, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ['class'] });
    schedule();
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame);
      clearMarks();
    };
  }, [text, hitSeq]);
}

function DateField({ sessionId }: { sessionId: string }) {
  const [isBusy, setBusy] = useState(false);
  const jump = async (date: string) => {
    // Without a time zone, the date would be parsed as UTC.
    const day = new Date(`${date}T00:00`).getTime();
    if (Number.isNaN(day)) return;
    setBusy(true);
    await tryOrToast('Could not find the date', async () => {
      const seq = await findFirstSince(sessionId, startOfDay(day));
      if (seq === null) {
        showToast({ title: 'No message is that new', text: 'The newest message is older than this date.' });
        return;
      }
      await fetchMessagesAround(sync, sessionId, seq);
      jumpTarget.value = { sessionId, seq, query: null };
    });
    setBusy(false);
  };
  return (
    <label class="session-search-date small">
      <span>Show messages since</span>
      <input
        class="input"
        type="date"
        max="9999-12-31"
        aria-busy={isBusy}
        onChange={({ currentTarget }) => void jump(currentTarget.value)}
      />
      {isBusy && <span class="muted">Searching …</span>}
    </label>
  );
}
