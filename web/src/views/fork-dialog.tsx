/** The dialog that forks a session: starts a new session with the history before a message. */

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useLocation } from 'wouter-preact';
import { errorText } from '../api/errors.ts';
import { suggestWorktreeName } from '../content/worktree-name.ts';
import * as actions from '../state/actions.ts';
import { updateMessageDraft } from '../state/drafts.ts';
import { type ForkPoint, forkPoint } from '../state/jump.ts';
import { getOwn } from '../state/get-own.ts';
import { sessionTitle } from '../state/sessions.ts';
import { summaries } from '../state/store.ts';
import { ErrorNotice } from '../ui/loading.tsx';
import { openOrOffer, showError } from '../ui/toasts.tsx';
import { startAskingTrust } from './ask-trust.ts';

const PLACES = [
  { place: 'same', label: 'Same directory', hint: 'Both agents change the same files.' },
  {
    place: 'worktree',
    label: 'New git worktree',
    hint: 'Works on a new branch of the last commit. Changes that are not committed stay here.',
  },
] as const;

export function ForkDialog({ point: { sessionId, seq, text } }: { point: ForkPoint }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [, navigate] = useLocation();
  const [place, setPlace] = useState<'same' | 'worktree'>('same');
  const [name, setName] = useState(() =>
    suggestWorktreeName(text, new Set(Object.values(summaries.value).map(({ metadata }) => metadata?.worktree?.branch ?? ''))),
  );
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await startAskingTrust(async (trust) => {
        const id = await actions.fork(sessionId, seq, place === 'worktree' ? name.trim() : '', trust);
        if (text !== '') updateMessageDraft(id, { text });
        const title = sessionTitle(getOwn(summaries.peek(), sessionId) ?? { id: sessionId, metadata: null });
        const isHere = dialog.current !== null;
        dialog.current?.close();
        openOrOffer(isHere, navigate, { title: 'Session forked', text: title, url: `/sessions/${id}` });
      });
    } catch (failure) {
      if (dialog.current === null) return showError('Could not fork the session', failure);
      setError(errorText(failure));
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog
      class="dialog"
      ref={dialog}
      onClose={() => {
        forkPoint.value = null;
      }}
      aria-labelledby="fork-title"
    >
      <form onSubmit={submit}>
        <h2 id="fork-title">Fork this session?</h2>
        <p class="muted">
          {text === ''
            ? 'A new session starts with the whole conversation.'
            : 'A new session starts with the conversation before this message. The message is in its composer, to change and to send.'}{' '}
          This session stays as it is.
        </p>
        <fieldset class="choices">
          <legend class="visually-hidden">Where the new session works</legend>
          {PLACES.map(({ place: value, label }) => (
            <label key={value} class="choice">
              <input type="radio" name="fork-place" value={value} checked={place === value} onChange={() => setPlace(value)} />
              <span>{label}</span>
            </label>
          ))}
        </fieldset>
        <p class="muted small">{PLACES.find(({ place: value }) => value === place)?.hint}</p>
        {place === 'worktree' && (
          <div class="field">
            <label for="fork-worktree">Worktree and branch name</label>
            <input
              id="fork-worktree"
              class="input mono"
              required
              value={name}
              autocomplete="off"
              autocapitalize="none"
              spellcheck={false}
              onInput={({ currentTarget }) => setName(currentTarget.value)}
            />
          </div>
        )}
        <ErrorNotice text={error} />
        <div class="actions">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="button primary" disabled={isBusy}>
            {isBusy ? 'Forking …' : 'Fork'}
          </button>
        </div>
      </form>
    </dialog>
  );
}
