/** The form that starts a session on a machine. */

import './machines.css';
import { Check, LoaderCircle, X } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import { useLocation, useSearchParams } from 'wouter-preact';
import type { Machine } from '../api/types.ts';
import { describeStartError, type StartError, type StartField } from '../content/start-error.ts';
import { agentsOn, allowsNeverAsking, defaultAgent } from '../state/catalog.ts';
import { getOwn } from '../state/get-own.ts';
import { sync } from '../state/hub-client.ts';
import {
  directoryExists,
  isOutsideServedDirectories,
  machineName,
  servedDirectories,
  type SpawnOptions,
  spawnSession,
} from '../state/machines.ts';
import { loadStates, machines, summaries } from '../state/store.ts';
import { shortenPath } from '../content/paths.ts';
import { LoadGate } from '../ui/loading.tsx';
import { confirmNeverAsking } from './confirm-never-asking.ts';
import { NoMachines } from './machines.tsx';

const CHECK_DEBOUNCE_MS = 300;
const MAX_SUGGESTIONS = 6;

const INITIAL: SpawnOptions = { directory: '', agent: '', model: '', yolo: false, worktree: '' };

export function NewSession() {
  useEffect(() => void sync.fetchMachines(), []);
  return (
    <div class="page" tabIndex={0} role="region" aria-label="New session">
      <div class="page-head">
        <h1>New session</h1>
      </div>
      <LoadGate loadState={loadStates.machines.value} label="Loading the machines" onRetry={() => void sync.fetchMachines()}>
        {Object.keys(machines.value).length === 0 ? (
          <NoMachines />
        ) : (
          <LoadGate loadState={loadStates.config.value} label="Loading the agents" onRetry={() => void sync.fetchConfig()}>
            <LoadGate loadState={loadStates.list.value} label="Loading the sessions" onRetry={() => void sync.fetchSessions()}>
              <NewSessionForm />
            </LoadGate>
          </LoadGate>
        )}
      </LoadGate>
    </div>
  );
}

function NewSessionForm() {
  const [params] = useSearchParams();
  const [, navigate] = useLocation();
  const online = Object.values(machines.value);
  const [machineId, setMachineId] = useState(params.get('machine') ?? online[0]?.id ?? '');
  const [options, setOptions] = useState<SpawnOptions>(INITIAL);
  const [usesWorktree, setUsesWorktree] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<StartError | null>(null);
  const machine = getOwn(machines.value, machineId) ?? online[0];
  const agents = agentsOn(machine);
  const agent = agents.find(({ id }) => id === options.agent) ?? agents.find(({ id }) => id === defaultAgent.value?.id) ?? agents[0];
  const changeOptions = (changes: Partial<SpawnOptions>) => {
    setOptions({ ...options, ...changes });
    setError(null);
  };
  const errorOf = (field: StartField) => (error?.field === field ? error.text : null);
  useEffect(() => {
    if (error?.field) document.getElementById(error.field)?.focus();
  }, [error]);

  const changeYolo = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    const yolo = currentTarget.checked;
    // The box is checked only after the user has confirmed.
    currentTarget.checked = options.yolo;
    if (yolo) confirmNeverAsking(async () => changeOptions({ yolo }));
    else changeOptions({ yolo });
  };
  const changeUsesWorktree = (isUsed: boolean) => {
    setUsesWorktree(isUsed);
    setError(null);
  };

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!machine || !agent) return;
    const worktree = usesWorktree ? options.worktree.trim() : '';
    if (usesWorktree && worktree === '') {
      setError({ field: 'worktree', text: 'Enter a worktree name.' });
      return;
    }
    setBusy(true);
    setError(null);
    try {
      const id = await spawnSession(machine.id, {
        ...options,
        agent: agent.id,
        directory: options.directory.trim(),
        model: options.model.trim(),
        worktree,
      });
      navigate(`/sessions/${id}`);
    } catch (failure) {
      setError(describeStartError(failure, usesWorktree));
      setBusy(false);
    }
  };

  return (
    <form class="stack" onSubmit={submit}>
      <div class="field">
        <label for="machine">Machine</label>
        <select id="machine" class="input" value={machine?.id} onChange={({ currentTarget }) => setMachineId(currentTarget.value)}>
          {online.map((item) => (
            <option key={item.id} value={item.id}>
              {machineName(item)} · {item.id.slice(0, 8)}
            </option>
          ))}
        </select>
      </div>
      {machine && (
        <DirectoryField
          machine={machine}
          value={options.directory}
          error={errorOf('directory')}
          onChange={(directory) => changeOptions({ directory })}
        />
      )}
      <div class="field">
        <label for="agent">Agent</label>
        <select
          id="agent"
          class="input"
          value={agent?.id}
          disabled={!agent}
          {...errorAttributes('agent', errorOf('agent'))}
          onChange={({ currentTarget }) => changeOptions({ agent: currentTarget.value })}
        >
          {!agent && <option>No agent is installed on this machine</option>}
          {agents.map(({ id, label }) => (
            <option key={id} value={id}>
              {label}
            </option>
          ))}
        </select>
        <FieldError field="agent" text={errorOf('agent')} />
      </div>
      <div class="field">
        <label for="model">Model (optional)</label>
        <input
          id="model"
          class="input mono"
          value={options.model}
          placeholder="Agent default"
          list="models"
          autocomplete="off"
          {...errorAttributes('model', errorOf('model'))}
          onInput={({ currentTarget }) => changeOptions({ model: currentTarget.value })}
        />
        <datalist id="models">
          {agent?.models.map(({ id, label }) => (
            <option key={id} value={id}>
              {label}
            </option>
          ))}
        </datalist>
        <FieldError field="model" text={errorOf('model')} />
      </div>
      <fieldset class="plain">
        <legend class="label">Options</legend>
        <label class="check">
          <input type="checkbox" checked={usesWorktree} onChange={({ currentTarget }) => changeUsesWorktree(currentTarget.checked)} />
          <span>
            Use a new git worktree
            <br />
            <span class="muted small">Works on a new branch in a separate checkout. The directory itself is not changed.</span>
          </span>
        </label>
        {usesWorktree && (
          <div class="field">
            <label for="worktree">Worktree and branch name</label>
            <input
              id="worktree"
              class="input mono"
              required
              value={options.worktree}
              autocomplete="off"
              autocapitalize="none"
              spellcheck={false}
              {...errorAttributes('worktree', errorOf('worktree'))}
              onInput={({ currentTarget }) => changeOptions({ worktree: currentTarget.value })}
            />
            <FieldError field="worktree" text={errorOf('worktree')} />
          </div>
        )}
        {allowsNeverAsking.value && (
          <label class="check">
            <input type="checkbox" checked={options.yolo} onChange={changeYolo} />
            <span class="never-asks">
              Approve everything
              <br />
              <span class="muted small">The agent never asks before it acts.</span>
            </span>
          </label>
        )}
      </fieldset>
      {error && !error.field && (
        <p class="notice danger" role="alert">
          {error.text}
        </p>
      )}
      <div class="actions">
        <button type="submit" class="button primary" disabled={isBusy || !agent || options.directory.trim() === ''}>
          {isBusy ? 'Starting …' : 'Start session'}
        </button>
      </div>
    </form>
  );
}

/** ARIA attributes that connect an invalid field to its error. */
const errorAttributes = (field: StartField, error: string | null) =>
  error === null ? {} : { 'aria-invalid': true, 'aria-describedby': `${field}-error` };

function FieldError({ field, text }: { field: StartField; text: string | null }) {
  return (
    text && (
      <p id={`${field}-error`} class="field-status invalid" role="alert">
        <X size={15} aria-hidden /> {text}
      </p>
    )
  );
}

type DirectoryCheck = 'unknown' | 'checking' | 'exists' | 'missing';

interface DirectoryFieldProps {
  machine: Machine;
  value: string;
  error: string | null;
  onChange: (directory: string) => void;
}

function DirectoryField({ machine, value, error, onChange }: DirectoryFieldProps) {
  const machineId = machine.id;
  const check = useDirectoryCheck(machineId, value.trim());
  const usedDirectories = Object.values(summaries.value)
    .filter(({ metadata }) => metadata?.machineId === machineId)
    .map(({ metadata }) => metadata?.worktree?.basePath ?? metadata?.path ?? '');
  const suggestions = [...new Set(usedDirectories)].filter(Boolean).slice(0, MAX_SUGGESTIONS);
  const hint = {
    unknown: 'The directory that the agent works in, such as /code/demo',
    checking: 'Checking …',
    exists: 'Directory found',
    missing: isOutsideServedDirectories(value.trim(), machine)
      ? `Not served by this machine, only: ${servedDirectories(machine).join(', ')}`
      : 'Directory not found on this machine',
  }[check];
  return (
    <div class="field">
      <label for="directory">Directory</label>
      <input
        id="directory"
        class="input mono"
        required
        value={value}
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        aria-describedby="directory-check"
        {...errorAttributes('directory', error)}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
      <FieldError field="directory" text={error} />
      <p id="directory-check" role="status" class={`field-status ${check === 'exists' ? 'valid' : check === 'missing' ? 'invalid' : ''}`}>
        {check === 'exists' && <Check size={15} aria-hidden />}
        {check === 'missing' && <X size={15} aria-hidden />}
        {check === 'checking' && <LoaderCircle size={15} aria-hidden class="spinning" />}
        {hint}
      </p>
      {suggestions.length > 0 && (
        <div class="suggestions">
          {suggestions.map((directory) => (
            <button key={directory} type="button" class="button" onClick={() => onChange(directory)}>
              <span class="mono ellipsis">{shortenPath(directory)}</span>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

/** Checks whether a directory exists on a machine, debounced. */
function useDirectoryCheck(machineId: string, directory: string): DirectoryCheck {
  const [check, setChecked] = useState<DirectoryCheck>('unknown');
  useEffect(() => {
    setChecked('unknown');
    if (directory === '') return undefined;
    let isCurrent = true;
    const timer = setTimeout(async () => {
      setChecked('checking');
      const found = await directoryExists(machineId, directory).then(
        (exists): DirectoryCheck => (exists ? 'exists' : 'missing'),
        (): DirectoryCheck => 'unknown',
      );
      if (isCurrent) setChecked(found);
    }, CHECK_DEBOUNCE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [machineId, directory]);
  return check;
}
