export { describeResumeContract, resumeContractCases, type ResumeRunner } from './describe-resume-contract.ts'
export { ResumeLab, type ResumeCase } from './resume-case.ts'
export type { ResumeStore } from './resume-store.ts'
