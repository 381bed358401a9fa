import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemProcesses } from './process-identity.ts'

const onLinux = process.platform === 'linux'
const NEEDS_PROC = 'start times need /proc'

describe('systemProcesses', () => {
  it('knows this process, always the same', () => {
    const self = systemProcesses.self()
    expect(self.pid).toBe(process.pid)
    expect(systemProcesses.self()).toEqual(self)
    expect(systemProcesses.look(process.pid)).toEqual({ pidStart: self.pidStart })
  })

  it('knows when it started, in which boot and in which namespace', ({ skip }) => {
    skip(!onLinux, NEEDS_PROC)
    const self = systemProcesses.self()
    expect(self.pidStart).toBeGreaterThan(0)
    expect(self.bootId).toMatch(/^[0-9a-f-]{36}$/)
    expect(self.pidNamespace).toMatch(/^pid:\[\d+\]$/)
  })

  it('tells that a process is gone', async () => {
    const child = spawn('true')
    await once(child, 'exit')
    expect(systemProcesses.look(child.pid as number)).toBe('gone')
  })

  it('reads the start time behind a command name with spaces and parentheses', async ({ skip }) => {
    skip(!onLinux, NEEDS_PROC)
    const name = 'a) S (1 2'
    const child = spawn(process.execPath, [
      '-e',
      `process.title = ${JSON.stringify(name)}; console.log(1); setInterval(() => 0, 1e6)`,
    ])
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8')
    expect(stat).toContain(name)
    const started = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
    expect(systemProcesses.look(child.pid as number)).toEqual({ pidStart: started })
    expect(started).toBeGreaterThan(systemProcesses.self().pidStart - 1)
  })

  it('counts a zombie as gone: nobody may ever wait for it', async ({ skip }) => {
    skip(!onLinux, NEEDS_PROC)
    // The shell becomes the sleep, which never waits for the child that the shell started.
    const parent = spawn('sh', ['-c', 'sleep 0.02 & echo $!; exec sleep 1000'])
    onTestFinished(() => void parent.kill('SIGKILL'))
    const [printed] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(printed.toString())
    const state = (): string => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.[0] ?? ''
    await expect.poll(state, { interval: 2 }).toBe('Z')
    expect(systemProcesses.look(pid)).toBe('gone')
  })
})
