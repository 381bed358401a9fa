/** One question that a program asks of the world. */
export interface Ask {
  call: string
  args: readonly unknown[]
}

/** What the world answers; `failed`: no answer came. */
export type Answer = { ok: unknown } | { failed: string }

/** Where a program stands: at its next question, or at its end. */
export type Standing = { ask: Ask } | { done: unknown } | { threw: string }

export type Asks = (call: string, ...args: readonly unknown[]) => Promise<unknown>

/** Ordinary code over an injected world. It may ask for one thing at a time, and must go by nothing but the answers. */
export type Program = (input: never, ask: Asks) => Promise<unknown>

interface Running {
  name: string
  input: unknown
  answers: Answer[]
  standing?: Standing
}

/**
 * Runs programs step by step, so that a program can be copied, frozen for good or answered in several ways: each step runs it
 * from its beginning on the answers so far. A program on its way is a number, the same for the same input and answers.
 */
export class Programs {
  readonly #programs: Readonly<Record<string, Program>>
  readonly #running: Running[] = []
  readonly #numbers = new Map<string, number>()

  constructor(programs: Readonly<Record<string, Program>>) {
    this.#programs = programs
  }

  begin(name: string, input: unknown): number {
    return this.#numberOf(`${name} ${JSON.stringify(input)}`, () => ({ name, input, answers: [] }))
  }

  answer(number: number, answer: Answer): number {
    const { name, input, answers } = this.#at(number)
    return this.#numberOf(`${number} ${JSON.stringify(answer)}`, () => ({ name, input, answers: [...answers, answer] }))
  }

  nameOf(number: number): string {
    return this.#at(number).name
  }

  async standing(number: number): Promise<Standing> {
    const running = this.#at(number)
    running.standing ??= await this.#run(running)
    return running.standing
  }

  #at(number: number): Running {
    const running = this.#running[number]
    if (running === undefined) throw new Error(`no program is number ${number}`)
    return running
  }

  #numberOf(key: string, make: () => Running): number {
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    const number = this.#running.push(make()) - 1
    this.#numbers.set(key, number)
    return number
  }

  async #run({ name, input, answers }: Running): Promise<Standing> {
    const program = this.#programs[name]
    if (program === undefined) throw new Error(`no program ${name}`)
    let next = 0
    const copies = structuredClone({ input, answers })
    return await new Promise<Standing>((resolve, reject) => {
      const ask: Asks = async (call, ...args) => {
        const answer = copies.answers[next++]
        if (answer === undefined) {
          resolve({ ask: { call, args: structuredClone(args) } })
          return await new Promise<never>(() => undefined)
        }
        if ('failed' in answer) throw Object.assign(new Error(answer.failed), { code: 'UNAVAILABLE' })
        return answer.ok
      }
      program(copies.input as never, ask).then(
        (done) => resolve({ done }),
        (error: unknown) => {
          const code = (error as { code?: unknown }).code
          // Anything without a code is a fault of the model.
          if (typeof code === 'string') resolve({ threw: code })
          else reject(error)
        },
      )
    })
  }
}
