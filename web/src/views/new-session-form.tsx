/** The form that starts a session: the task, the place, and more options. */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import type { Machine } from '../api/types.ts';
import { pastedFiles } from '../content/pasted-files.ts';
import { describeStartError, type StartError, type StartField } from '../content/start-error.ts';
import type { AgentOption } from '../content/agent-options.ts';
import { suggestWorktreeName } from '../content/worktree-name.ts';
import { agentsOn, defaultAgent } from '../state/catalog.ts';
import {
  getMessageDraft,
  getStartChoice,
  NEW_SESSION,
  pinnedDirectories,
  type StartChoice,
  setStartChoice,
  updateMessageDraft,
} from '../state/drafts.ts';
import { sendFirstMessage } from '../state/first-message.ts';
import { getOwn } from '../state/get-own.ts';
import { computerName } from '../state/machine-info.ts';
import { spawnSession } from '../state/machines.ts';
import { placeKey, recentPlaces } from '../state/places.ts';
import { type ChosenPlace, knownMachines, readySession, startPlace } from '../state/start-place.ts';
import { machines, summaries } from '../state/store.ts';
import { addFiles, getUploads } from '../state/uploads.ts';
import { ErrorNotice } from '../ui/loading.tsx';
import { hasKeyboard, isEditable } from '../ui/device.ts';
import { openOrOffer, showError } from '../ui/toasts.tsx';
import { startAskingTrust } from './ask-trust.ts';
import { PlaceField } from './place-field.tsx';
import { StartOptions } from './start-options.tsx';
import { TaskFiles } from './task-files.tsx';
import { useBranches, WorktreeField } from './worktree-field.tsx';

/** `machineId`: of the machine that the link to this page names. */
export function NewSessionForm({ machineId }: { machineId: string | null }) {
  const [, navigate] = useLocation();
  const online = machines.value;
  const pins = pinnedDirectories();
  const [chosen, setChosen] = useState<ChosenPlace | null>(null);
  /** The machine of the chosen place when it was last online. */
  const [seen, setSeen] = useState<Machine>();
  const known = knownMachines(online, seen);
  const places = useMemo(
    () => recentPlaces(Object.values(summaries.value), known, pins),
    [summaries.value, online, seen, JSON.stringify(pins)],
  );
  const { place, isOffline } = startPlace(chosen, { places, online, requestedId: machineId });
  const machine = getOwn(known, place.machineId);
  useEffect(() => {
    if (isOffline) return;
    // A place that is shown is a choice, also if the user has not changed it. The user may have changed it since this render.
    setChosen((current) => current ?? place);
    setSeen(machine);
  }, [machine, isOffline]);
  const directory = place.directory.trim();

  const key = placeKey(machine?.id ?? '', directory);
  // What the user has chosen in this form, for the place `key`.
  const [choices, setChoices] = useState<{ key: string } & Partial<StartChoice>>({ key });
  const choicesHere = choices.key === key ? choices : { key };
  const ready = readySession(Object.values(summaries.value), key);
  const remembered = getStartChoice(key);
  const agents = agentsOn(machine);
  const lastFlavor = places.find((item) => placeKey(item.machine.id, item.directory) === key)?.session?.metadata?.flavor;
  const agent =
    [choicesHere.agent, remembered?.agent].map((id) => agents.find((offer) => offer.id === id)).find(Boolean) ??
    agents.find(({ id, flavor = id }) => flavor === lastFlavor) ??
    agents.find(({ id }) => id === defaultAgent.value?.id) ??
    agents[0];
  const rememberedOfAgent = remembered?.agent === agent?.id ? remembered : undefined;
  const model = choicesHere.model ?? rememberedOfAgent?.model ?? '';
  const agentOptions = agent?.options ?? [];
  const chosenOptions = choicesHere.options ?? rememberedOfAgent?.options ?? {};
  // The agent may have other options by now.
  const options = Object.fromEntries(Object.entries(chosenOptions).filter(([id, value]) => offersValue(agentOptions, id, value)));

  const [neverAsks, setNeverAsks] = useState(false);
  const [usesWorktree, setUsesWorktree] = useState(false);
  const [typedWorktree, setTypedWorktree] = useState<string | null>(null);
  const task = getMessageDraft(NEW_SESSION).text;
  const branches = useBranches(machine?.id, usesWorktree ? directory : '');
  const [chosenBranch, setBranch] = useState('');
  const usedNames = useMemo(
    () =>
      new Set([
        ...Object.values(summaries.value).map(({ metadata }) => metadata?.worktree?.branch ?? ''),
        ...(branches.value?.branches ?? []),
      ]),
    [summaries.value, branches.value],
  );
  const worktree = typedWorktree ?? suggestWorktreeName(task, usedNames);
  const continuesBranch = branches.value?.available.includes(worktree.trim()) ?? false;
  const branch = !continuesBranch && branches.value?.branches.includes(chosenBranch) ? chosenBranch : '';
  const hasRejectedFile = getUploads(NEW_SESSION).some(({ status }) => status === 'failed');

  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<StartError | null>(null);
  const errorOf = (field: StartField) => (error?.field === field ? error.text : null);
  const form = useRef<HTMLFormElement>(null);
  const taskField = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // A phone would cover the form with its keyboard.
    if (hasKeyboard.peek() && !isEditable(document.activeElement)) taskField.current?.focus();
  }, []);
  useEffect(() => {
    // The field may be in a closed section, or hidden while a recent place is chosen.
    const field = error?.field ? document.getElementById(error.field) : null;
    const section = field?.closest('details');
    if (section) section.open = true;
    field?.focus();
  }, [error]);

  /** Returns a function that clears the error of the form, and then calls `change`. */
  const clearingError =
    <T,>(change: (value: T) => void) =>
    (value: T) => {
      setError(null);
      change(value);
    };

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!machine || isOffline || !agent || isBusy || hasRejectedFile) return;
    if (directory === '') return setError({ field: 'directory', text: 'Enter a directory.' });
    const worktreeName = usesWorktree ? worktree.trim() : '';
    if (usesWorktree && worktreeName === '') return setError({ field: 'worktree', text: 'Enter a worktree name.' });
    setBusy(true);
    setError(null);
    try {
      const choice = { agent: agent.id, model: model.trim(), options };
      await startAskingTrust(async (trust) => {
        const id = await spawnSession(machine.id, { directory, ...choice, yolo: neverAsks, worktree: worktreeName, branch, trust });
        setStartChoice(key, choice);
        void sendFirstMessage(id);
        openOrOffer(form.current !== null, navigate, { title: 'Session started', text: directory, url: `/sessions/${id}` });
      });
    } catch (failure) {
      if (form.current === null) return showError('Could not start the session', failure);
      const described = describeStartError(failure, usesWorktree);
      // The directory of a recent place can be corrected only in its field.
      if (described.field === 'directory') setChosen({ ...place, machineId: machine.id, isOther: true });
      setError(described);
    } finally {
      setBusy(false);
    }
  };

  return (
    <form class="stack new-session" ref={form} onSubmit={submit}>
      <div class="field">
        <label for="task">Task</label>
        <textarea
          id="task"
          class="input"
          dir="auto"
          rows={4}
          value={task}
          placeholder="What should the agent do?"
          aria-describedby="task-help"
          ref={taskField}
          onInput={({ currentTarget }) => updateMessageDraft(NEW_SESSION, { text: currentTarget.value })}
          onPaste={(event) => {
            const pasted = pastedFiles(event.clipboardData);
            if (pasted.length === 0) return;
            event.preventDefault();
            addFiles(NEW_SESSION, pasted);
          }}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            form.current?.requestSubmit();
          }}
        />
        <p id="task-help" class="muted small">
          The first message of the session.{hasKeyboard.value && ' Ctrl+Enter starts.'} Without a task, you write it later.
        </p>
        <TaskFiles />
      </div>
      <PlaceField
        places={places}
        value={place}
        machines={Object.values(known)}
        machine={machine}
        error={errorOf('directory')}
        onChange={clearingError(setChosen)}
      />
      {isOffline && (
        <p class="notice warn" role="status">
          {machine ? computerName(machine) : 'That machine'} is offline. Choose another machine, or start the agent on it again.
        </p>
      )}
      <WorktreeField
        isUsed={usesWorktree}
        name={worktree}
        branch={branch}
        branches={branches}
        continuesBranch={continuesBranch}
        errorOf={errorOf}
        onUse={clearingError(setUsesWorktree)}
        onName={clearingError(setTypedWorktree)}
        onBranch={clearingError(setBranch)}
      />
      <StartOptions
        agents={agents}
        agent={agent}
        model={model}
        options={options}
        neverAsks={neverAsks}
        errorOf={errorOf}
        onAgent={clearingError((id: string) => setChoices({ key, agent: id, model: '', options: {} }))}
        onModel={clearingError((next: string) => setChoices({ ...choicesHere, ...(agent ? { agent: agent.id } : {}), model: next }))}
        onOptions={clearingError((next: StartChoice['options'] & object) =>
          setChoices({ ...choicesHere, ...(agent ? { agent: agent.id } : {}), options: next }),
        )}
        onNeverAsks={clearingError(setNeverAsks)}
      />
      {error && !error.field && <ErrorNotice text={error.text}>{task.trim() !== '' && ' Your task is kept.'}</ErrorNotice>}
      <div class="actions start-actions">
        <button type="submit" class="button primary" disabled={isBusy || isOffline || !agent || directory === '' || hasRejectedFile}>
          {isBusy ? 'Starting …' : ready ? 'Start another session' : 'Start session'}
        </button>
        {ready && !isBusy && (
          <Link class="button" href={`/sessions/${ready.id}`}>
            Open the session that is ready
          </Link>
        )}
      </div>
    </form>
  );
}

/** Whether an agent offers a value for an option. */
const offersValue = (options: AgentOption[], id: string, value: string | boolean): boolean =>
  options.some(
    (option) => option.id === id && (option.choices.length === 0 ? value !== '' : option.choices.some((choice) => choice.id === value)),
  );
