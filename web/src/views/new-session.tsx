/** Starting a session on a machine. */

import './machines.css';
import { Check, LoaderCircle, X } from 'lucide-preact';
import { useEffect, useState } from 'preact/hooks';
import { useLocation, useSearchParams } from 'wouter-preact';
import { type StartField, type StartProblem, startProblem } from '../content/start-problem.ts';
import { sync } from '../hub.ts';
import { own } from '../own.ts';
import { exists, machineName, type Start, spawn } from '../state/machines.ts';
import { AGENTS } from '../state/modes.ts';
import { machines, reading, summaries } from '../state/store.ts';
import { Read, shortPath } from '../ui/pieces.tsx';
import { NoMachines } from './machines.tsx';

/** After so long without a key the directory is looked up, in milliseconds. */
const CHECK_AFTER_MS = 300;
/** Directories that are offered. */
const SUGGESTED = 6;

const FIRST: Start = { directory: '', agent: AGENTS[0] ?? '', model: '', yolo: false, worktree: '' };

/** The view. */
export function NewSession() {
  useEffect(() => void sync.machines(), []);
  return (
    <div class="page" tabIndex={0} role="region" aria-label="New session">
      <div class="page-head">
        <h1>New session</h1>
      </div>
      <Read reading={reading.machines.value} label="Reading the machines" onRetry={() => void sync.machines()}>
        {Object.keys(machines.value).length === 0 ? <NoMachines /> : <Form />}
      </Read>
    </div>
  );
}

function Form() {
  const [params] = useSearchParams();
  const [, navigate] = useLocation();
  const online = Object.values(machines.value);
  const [machineId, setMachineId] = useState(params.get('machine') ?? online[0]?.id ?? '');
  const [start, setStart] = useState<Start>(FIRST);
  const [isWorktree, setWorktree] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<StartProblem | null>(null);
  const machine = own(machines.value, machineId) ?? online[0];
  const change = (changes: Partial<Start>) => {
    setStart({ ...start, ...changes });
    // It spoke of what stood there before.
    setProblem(null);
  };
  const at = (field: StartField) => (problem?.field === field ? problem.text : null);
  useEffect(() => {
    if (problem?.field) document.getElementById(problem.field)?.focus();
  }, [problem]);

  const toggleWorktree = (on: boolean) => {
    setWorktree(on);
    setProblem(null);
  };

  const submit = async (event: Event) => {
    event.preventDefault();
    if (!machine) return;
    const worktree = isWorktree ? start.worktree.trim() : '';
    if (isWorktree && worktree === '') {
      setProblem({ field: 'worktree', text: 'The worktree needs a name.' });
      return;
    }
    setBusy(true);
    setProblem(null);
    try {
      const id = await spawn(machine.id, { ...start, directory: start.directory.trim(), model: start.model.trim(), worktree });
      navigate(`/sessions/${id}`);
    } catch (failure) {
      setProblem(startProblem(failure, isWorktree));
      setBusy(false);
    }
  };

  return (
    <form class="stack" onSubmit={submit}>
      <div class="field">
        <label for="machine">Machine</label>
        <select id="machine" class="input" value={machine?.id} onChange={({ currentTarget }) => setMachineId(currentTarget.value)}>
          {online.map((one) => (
            <option key={one.id} value={one.id}>
              {machineName(one)} · {one.id.slice(0, 8)}
            </option>
          ))}
        </select>
      </div>
      {machine && <Directory machineId={machine.id} value={start.directory} problem={at('directory')} onChange={(directory) => change({ directory })} />}
      <div class="field">
        <label for="agent">Agent</label>
        <select id="agent" class="input" value={start.agent} {...marked('agent', at('agent'))} onChange={({ currentTarget }) => change({ agent: currentTarget.value })}>
          {AGENTS.map((agent) => (
            <option key={agent}>{agent}</option>
          ))}
        </select>
        <Problem field="agent" text={at('agent')} />
      </div>
      <div class="field">
        <label for="model">Model (optional)</label>
        <input
          id="model"
          class="input mono"
          value={start.model}
          placeholder="The agent's own choice"
          autocomplete="off"
          {...marked('model', at('model'))}
          onInput={({ currentTarget }) => change({ model: currentTarget.value })}
        />
        <Problem field="model" text={at('model')} />
      </div>
      <fieldset class="plain">
        <legend class="label">Ways of working</legend>
        <label class="check">
          <input type="checkbox" checked={isWorktree} onChange={({ currentTarget }) => toggleWorktree(currentTarget.checked)} />
          <span>
            In a git worktree of its own
            <br />
            <span class="muted small">A new branch and checkout, so that the directory stays as it is</span>
          </span>
        </label>
        {isWorktree && (
          <div class="field">
            <label for="worktree">Name of the worktree and its branch</label>
            <input
              id="worktree"
              class="input mono"
              required
              value={start.worktree}
              autocomplete="off"
              autocapitalize="none"
              spellcheck={false}
              {...marked('worktree', at('worktree'))}
              onInput={({ currentTarget }) => change({ worktree: currentTarget.value })}
            />
            <Problem field="worktree" text={at('worktree')} />
          </div>
        )}
        <label class="check">
          <input type="checkbox" checked={start.yolo} onChange={({ currentTarget }) => change({ yolo: currentTarget.checked })} />
          <span>
            Without asking for permission
            <br />
            <span class="muted small">The agent does everything unasked</span>
          </span>
        </label>
      </fieldset>
      {problem && !problem.field && (
        <p class="notice danger" role="alert">
          {problem.text}
        </p>
      )}
      <div class="actions">
        <button type="submit" class="button primary" disabled={busy || start.directory.trim() === ''}>
          {busy ? 'Starting …' : 'Start the session'}
        </button>
      </div>
    </form>
  );
}

/** A field's attributes while something is wrong with it. */
const marked = (field: StartField, problem: string | null) => (problem === null ? {} : { 'aria-invalid': true, 'aria-describedby': `${field}-problem` });

/** What is wrong with a field, below it. */
function Problem({ field, text }: { field: StartField; text: string | null }) {
  return (
    text && (
      <p id={`${field}-problem`} class="path-check bad" role="alert">
        <X size={15} aria-hidden /> {text}
      </p>
    )
  );
}

type Checked = 'unknown' | 'checking' | 'yes' | 'no';

interface DirectoryProps {
  machineId: string;
  value: string;
  problem: string | null;
  onChange: (directory: string) => void;
}

function Directory({ machineId, value, problem, onChange }: DirectoryProps) {
  const checked = useExists(machineId, value.trim());
  const known = Object.values(summaries.value)
    .filter(({ metadata }) => metadata?.machineId === machineId)
    .map(({ metadata }) => metadata?.worktree?.basePath ?? metadata?.path ?? '');
  const suggested = [...new Set(known)].filter(Boolean).slice(0, SUGGESTED);
  const words = {
    unknown: 'Where the agent works, such as /code/demo',
    checking: 'Looking …',
    yes: 'This directory is there',
    no: 'There is no such directory on this machine',
  }[checked];
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
        {...marked('directory', problem)}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
      <Problem field="directory" text={problem} />
      <p id="directory-check" role="status" class={`path-check ${checked === 'yes' ? 'good' : checked === 'no' ? 'bad' : ''}`}>
        {checked === 'yes' && <Check size={15} aria-hidden />}
        {checked === 'no' && <X size={15} aria-hidden />}
        {checked === 'checking' && <LoaderCircle size={15} aria-hidden class="turning" />}
        {words}
      </p>
      {suggested.length > 0 && (
        <div class="suggestions">
          {suggested.map((directory) => (
            <button key={directory} type="button" class="button" onClick={() => onChange(directory)}>
              <span class="mono ellipsis">{shortPath(directory)}</span>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

/** Whether a directory is there, asked a moment after the last key. */
function useExists(machineId: string, directory: string): Checked {
  const [checked, setChecked] = useState<Checked>('unknown');
  useEffect(() => {
    setChecked('unknown');
    if (directory === '') return undefined;
    let isCurrent = true;
    const timer = setTimeout(async () => {
      setChecked('checking');
      const found = await exists(machineId, directory).then(
        (yes): Checked => (yes ? 'yes' : 'no'),
        (): Checked => 'unknown',
      );
      if (isCurrent) setChecked(found);
    }, CHECK_AFTER_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [machineId, directory]);
  return checked;
}
